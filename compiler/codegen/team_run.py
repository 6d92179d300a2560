"""A run of the program: its phases in order, each cut into as many shares as the team has members.

    void  program_run(team, table)          one run; the caller is member 0 of the team

The program around it gives, for a phase by its number:

    i64   program_phases()
    void  program_phase(table, phase, share, shares)
    i1    program_is_small(table)

A program that is small is run by its caller alone. A team may run one program after the other: its state says whose
phases are under way. Its phase word is 2p + 1 while the p-th phase since the team's start is under way, and 2p between
runs, before it. Each member takes the share of its own number, so that it finds in its caches what it wrote there; one
that has waited for SPINS_BEFORE_STEAL takes what another member has not begun, and does not wait in the next phase. Who
ends the last share of a phase opens the next. So nobody waits for a member that another thread keeps from its core,
unless that happened within a share (`team_yield` sees to it that it rarely does), and a member that comes back goes on
where the others are.

What a run returns does not depend on who computes which share. A share is taken by moving its word from an earlier
phase to this one; that succeeds only while the phase is under way, for it cannot end before the share has been taken
and done. Hence what is read after that (the table, the program, the first phase of the run) belongs to the same run.
"""

from __future__ import annotations

SPINS_BEFORE_STEAL = 100
"""A few microseconds: later than members of a team that is not disturbed are."""
SPINS_BEFORE_DOUBT = 8_000
"""A tenth of a millisecond or two."""
SPINS_BEFORE_BLOCK = 100_000
"""A few milliseconds; then the core is free, and a member that lost its own can move there."""

RUN_ALONE = """
declare i64 @program_phases()
declare void @program_phase(ptr, i64, i64, i64)
declare i1 @program_is_small(ptr)

define internal void @run_alone(ptr %table) {
entry:
  %count = call i64 @program_phases()
  br label %next
next:
  %phase = phi i64 [ 0, %entry ], [ %phase.next, %step ]
  %more = icmp slt i64 %phase, %count
  br i1 %more, label %step, label %done
step:
  call void @program_phase(ptr %table, i64 %phase, i64 0, i64 1)
  %phase.next = add i64 %phase, 1
  br label %next
done:
  ret void
}
"""

TEAM_RUN = """
define internal i1 @take_share(ptr %team, i64 %share, i64 %phase) {
entry:
  %line = call ptr @member_line(ptr %team, i64 %share)
  %taken.p = getelementptr i8, ptr %line, i64 32
  %taken = load atomic i64, ptr %taken.p acquire, align 8
  %free = icmp slt i64 %taken, %phase
  br i1 %free, label %try, label %done
try:
  %pair = cmpxchg ptr %taken.p, i64 %taken, i64 %phase seq_cst seq_cst
  %won = extractvalue { i64, i1 } %pair, 1
  br label %done
done:
  %mine = phi i1 [ false, %entry ], [ %won, %try ]
  ret i1 %mine
}

define internal void @do_share(ptr %team, i64 %share, i64 %size, i64 %phase) {
entry:
  %done.p = getelementptr i8, ptr %team, i64 128
  %end.p = getelementptr i8, ptr %team, i64 136
  %table.p = getelementptr i8, ptr %team, i64 272
  %first.p = getelementptr i8, ptr %team, i64 280
  %phases.p = getelementptr i8, ptr %team, i64 288
  %table = load ptr, ptr %table.p, align 8
  %first = load i64, ptr %first.p, align 8
  %phases = load ptr, ptr %phases.p, align 8
  %end = load i64, ptr %end.p, align 8
  %place2 = sub i64 %phase, %first
  %place = lshr i64 %place2, 1
  call void %phases(ptr %table, i64 %place, i64 %share, i64 %size)
  %before = atomicrmw add ptr %done.p, i32 1 acq_rel
  %now = add i32 %before, 1
  %size32 = trunc i64 %size to i32
  %last = icmp eq i32 %now, %size32
  br i1 %last, label %open, label %done
open:
  store atomic i32 0, ptr %done.p monotonic, align 4
  %next = add i64 %phase, 2
  %over = icmp eq i64 %next, %end
  %idle = add i64 %phase, 1
  %word = select i1 %over, i64 %idle, i64 %next
  call void @publish(ptr %team, i64 %word)
  br label %done
done:
  ret void
}

define internal void @take_part(ptr %team, i64 %id) {
entry:
  %size.p = getelementptr i8, ptr %team, i64 256
  %flag.p = getelementptr i8, ptr %team, i64 192
  %size32 = load i32, ptr %size.p, align 4
  %size = zext i32 %size32 to i64
  br label %look
look:
  %spun = phi i32 [ 0, %entry ], [ %spun, %share ], [ 0, %wait ], [ $NO_PATIENCE, %steal ]
  %flag = load atomic i32, ptr %flag.p monotonic, align 4
  %contended = icmp ne i32 %flag, 0
  br i1 %contended, label %yield, label %read
yield:
  call void @member_yields(ptr %team, i64 %id)
  br label %read
read:
  %phase = load atomic i64, ptr %team acquire, align 8
  %under.way = trunc i64 %phase to i1
  br i1 %under.way, label %own, label %done
own:
  %mine = call i1 @take_share(ptr %team, i64 %id, i64 %phase)
  br i1 %mine, label %share, label %wait
share:
  call void @do_share(ptr %team, i64 %id, i64 %size, i64 %phase)
  br label %look
wait:
  %spins = phi i32 [ %spun, %own ], [ %spins.next, %again ], [ %spins.next, %scan ], [ 0, %block ]
  $PAUSE
  %seen = load atomic i64, ptr %team acquire, align 8
  %same = icmp eq i64 %seen, %phase
  br i1 %same, label %waiting, label %look
waiting:
  %spins.next = add i32 %spins, 1
  %impatient = icmp eq i32 %spins.next, $STEAL_AFTER
  br i1 %impatient, label %scan, label %patient
scan:
  %i = phi i64 [ 0, %waiting ], [ %i.next, %other ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %other, label %wait
other:
  %i.next = add i64 %i, 1
  %stolen = call i1 @take_share(ptr %team, i64 %i, i64 %phase)
  br i1 %stolen, label %steal, label %scan
steal:
  call void @do_share(ptr %team, i64 %i, i64 %size, i64 %phase)
  br label %look
patient:
  %doubtful = icmp eq i32 %spins.next, $DOUBT_AFTER
  br i1 %doubtful, label %note, label %tired
note:
  call void @team_contended(ptr %team)
  br label %tired
tired:
  %long = icmp ugt i32 %spins.next, $BLOCK_AFTER
  br i1 %long, label %sleep, label %again
again:
  br label %wait
sleep:
  %user = icmp eq i64 %id, 0
  br i1 %user, label %block, label %apart
apart:
  call void @member_apart(ptr %team, i64 %id)
  br label %block
block:
  call void @sleep_through(ptr %team, i64 %phase)
  %core = call i32 @member_seen(ptr %team, i64 %id)
  br label %wait
done:
  ret void
}

define void @program_run(ptr %team, ptr %table) {
entry:
  %size.p = getelementptr i8, ptr %team, i64 256
  %size = load i32, ptr %size.p, align 4
  %one = icmp eq i32 %size, 1
  %small = call i1 @program_is_small(ptr %table)
  %only = or i1 %one, %small
  br i1 %only, label %alone, label %call
alone:
  call void @run_alone(ptr %table)
  ret void
call:
  %end.p = getelementptr i8, ptr %team, i64 136
  %word.p = getelementptr i8, ptr %team, i64 264
  %table.p = getelementptr i8, ptr %team, i64 272
  %first.p = getelementptr i8, ptr %team, i64 280
  %phases.p = getelementptr i8, ptr %team, i64 288
  call void @caller_seen(ptr %team)
  %count = call i64 @program_phases()
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %begin
begin:
  %idle = load i64, ptr %team, align 8
  %first = add i64 %idle, 1
  %length = mul i64 %count, 2
  %end = add i64 %first, %length
  store atomic i32 0, ptr %word.p monotonic, align 4
  store ptr %table, ptr %table.p, align 8
  store ptr @program_phase, ptr %phases.p, align 8
  store i64 %first, ptr %first.p, align 8
  store i64 %end, ptr %end.p, align 8
  call void @publish(ptr %team, i64 %first)
  call void @take_part(ptr %team, i64 0)
  br label %done
done:
  ret void
}
"""
