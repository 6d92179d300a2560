"""Timed runs: the team is awake before the clock starts, and asleep once it has stopped.

    i64   program_time(team, table, before, runs)   nanoseconds that so many runs take, after some that are not counted

What is compared takes turns, each with a team of its own. Members that spun after their turn would hold the core that
the next team's members wake on, for some milliseconds, and a sample of one or ten would be of two teams on one core.
And a member that is woken by the first run comes up to a millisecond late, which is no property of what is timed.
"""

from __future__ import annotations

TEAM_TIMED = """
define internal void @team_gathers(ptr %team) noinline {
entry:
  %sleepers.p = getelementptr i8, ptr %team, i64 64
  %word.p = getelementptr i8, ptr %team, i64 264
  call void @caller_seen(ptr %team)
  %idle = load i64, ptr %team, align 8
  %later = add i64 %idle, 2
  store atomic i32 $GATHERS, ptr %word.p release, align 4
  call void @publish(ptr %team, i64 %later)
  br label %wait
wait:
  %n = phi i32 [ 0, %entry ], [ %n.next, %again ]
  %asleep = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %some = icmp ne i32 %asleep, 0
  %n.next = add i32 %n, 1
  %patient = icmp ult i32 %n, $BLOCK_AFTER
  %stays = and i1 %some, %patient
  br i1 %stays, label %again, label %done
again:
  $PAUSE
  br label %wait
done:
  ret void
}

define i64 @program_time(ptr %team, ptr %table, i64 %before, i64 %runs) {
entry:
  %size.p = getelementptr i8, ptr %team, i64 256
  %word.p = getelementptr i8, ptr %team, i64 264
  %size = load i32, ptr %size.p, align 4
  %others = icmp ugt i32 %size, 1
  br i1 %others, label %gather, label %warm
gather:
  call void @team_gathers(ptr %team)
  br label %warm
warm:
  %w = phi i64 [ 0, %entry ], [ 0, %gather ], [ %w.next, %heat ]
  %w.next = add i64 %w, 1
  %cold = icmp slt i64 %w, %before
  br i1 %cold, label %heat, label %begin
heat:
  call void @program_run(ptr %team, ptr %table)
  br label %warm
begin:
  %start = call i64 @team_clock()
  br label %loop
loop:
  %i = phi i64 [ 0, %begin ], [ %i.next, %loop ]
  call void @program_run(ptr %team, ptr %table)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %runs
  br i1 %more, label %loop, label %finish
finish:
  %end = call i64 @team_clock()
  store atomic i32 $RESTS, ptr %word.p release, align 4
  %total = sub i64 %end, %start
  ret i64 %total
}
"""
