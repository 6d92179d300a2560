"""A run of the program: by the whole team, or for a while by its caller alone, where others are kept from their cores.

    void  program_run(team, table)          one run; the caller is member 0 of the team
    i64   program_time(team, table, runs)   nanoseconds that so many runs take, measured here, always by the whole team

Shares are static, so a member that has to leave its core to another busy thread (of a library that spins while it
waits for work, of another process) holds up everybody: two threads are then slower than one. The sign is a caller
that waits at a barrier for longer than SPINS_BEFORE_DOUBT, in two runs in a row (in one, it may have had to wake the
others). It then tries one run alone; where that was faster it stays alone for MIN_REST_NS, twice as long each time
that this happens again, up to MAX_REST_NS. Where it was not, the wait was the program's own (a loop that cannot be
shared out evenly), and the next PATIENCE such waits count for nothing. The results of a run do not depend on who
computes which share.
"""

from __future__ import annotations

SPINS_BEFORE_DOUBT = 8_000
"""About a tenth of a millisecond."""
MIN_REST_NS = 50_000_000
MAX_REST_NS = 400_000_000
PATIENCE = 64

# member 0: 28 i32 whether the last run was late, 32 i64 alone until, 40 i64 nanoseconds of the run that raised doubt
# (0: none), 48 i64 rest, 56 i32 patience, 60 i32 whether the caller waited for long
TEAM_RUN = """
%team.alone = type { [256 x i8], i32, [124 x i8] }
@solo = internal constant %team.alone { [256 x i8] zeroinitializer, i32 1, [124 x i8] zeroinitializer }, align 64
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

define internal i64 @team_clock() {
  %time = alloca [2 x i64], align 8
  %c = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time, align 8
  %n.p = getelementptr i8, ptr %time, i64 8
  %n = load i64, ptr %n.p, align 8
  %ns = mul i64 %s, 1000000000
  %now = add i64 %ns, %n
  ret i64 %now
}

define internal void @run_together(ptr %team, ptr %table) {
entry:
  %size.p = getelementptr i8, ptr %team, i64 256
  %table.p = getelementptr i8, ptr %team, i64 272
  %size32 = load i32, ptr %size.p, align 4
  %size = zext i32 %size32 to i64
  %alone = icmp eq i32 %size32, 1
  br i1 %alone, label %mine, label %call
call:
  %line = call ptr @member_line(ptr %team, i64 0)
  %thread.p = getelementptr i8, ptr %line, i64 16
  %thread = call i64 @pthread_self()
  store i64 %thread, ptr %thread.p, align 8
  %core = call i32 @member_seen(ptr %team, i64 0)
  store ptr %table, ptr %table.p, align 8
  call void @call_members(ptr %team)
  br label %mine
mine:
  call void @program(ptr %team, ptr %table, i64 0, i64 %size)
  call void @team_barrier(ptr %team, i64 0)
  ret void
}

define void @program_run(ptr %team, ptr %table) {
entry:
  %size.p = getelementptr i8, ptr %team, i64 256
  %size = load i32, ptr %size.p, align 4
  %one = icmp eq i32 %size, 1
  br i1 %one, label %only, label %timed
only:
  call void @program(ptr %team, ptr %table, i64 0, i64 1)
  ret void
timed:
  %late.p = getelementptr i8, ptr %team, i64 348
  %until.p = getelementptr i8, ptr %team, i64 352
  %doubt.p = getelementptr i8, ptr %team, i64 360
  %rest.p = getelementptr i8, ptr %team, i64 368
  %patience.p = getelementptr i8, ptr %team, i64 376
  %waited.p = getelementptr i8, ptr %team, i64 380
  %start = call i64 @team_clock()
  %until = load i64, ptr %until.p, align 8
  %rests = icmp slt i64 %start, %until
  %doubt = load i64, ptr %doubt.p, align 8
  %doubts = icmp ne i64 %doubt, 0
  %solo = or i1 %rests, %doubts
  br i1 %solo, label %alone, label %together
alone:
  call void @program(ptr @solo, ptr %table, i64 0, i64 1)
  br i1 %doubts, label %compare, label %done
compare:
  store i64 0, ptr %doubt.p, align 8
  %end = call i64 @team_clock()
  %took = sub i64 %end, %start
  %faster = icmp slt i64 %took, %doubt
  br i1 %faster, label %rest, label %trust
rest:
  %rest.old = load i64, ptr %rest.p, align 8
  %rest.now = call i64 @llvm.smax.i64(i64 %rest.old, i64 $MIN_REST)
  %rest.twice = mul i64 %rest.now, 2
  %rest.next = call i64 @llvm.smin.i64(i64 %rest.twice, i64 $MAX_REST)
  store i64 %rest.next, ptr %rest.p, align 8
  %until.next = add i64 %end, %rest.now
  store i64 %until.next, ptr %until.p, align 8
  ret void
trust:
  store i32 $PATIENCE, ptr %patience.p, align 4
  ret void
together:
  store i32 0, ptr %waited.p, align 4
  call void @run_together(ptr %team, ptr %table)
  %waited = load i32, ptr %waited.p, align 4
  %late = icmp ne i32 %waited, 0
  %again = load i32, ptr %late.p, align 4
  store i32 %waited, ptr %late.p, align 4
  br i1 %late, label %judge, label %punctual
punctual:
  %rest.was = load i64, ptr %rest.p, align 8
  %rest.half = lshr i64 %rest.was, 1
  store i64 %rest.half, ptr %rest.p, align 8
  ret void
judge:
  %patience = load i32, ptr %patience.p, align 4
  %patient = icmp ne i32 %patience, 0
  br i1 %patient, label %forgive, label %count
forgive:
  %patience.less = sub i32 %patience, 1
  store i32 %patience.less, ptr %patience.p, align 4
  ret void
count:
  %twice = icmp ne i32 %again, 0
  br i1 %twice, label %suspect, label %done
suspect:
  %late.end = call i64 @team_clock()
  %late.ns = sub i64 %late.end, %start
  store i64 %late.ns, ptr %doubt.p, align 8
  ret void
done:
  ret void
}

define i64 @program_time(ptr %team, ptr %table, i64 %runs) {
entry:
  %start = call i64 @team_clock()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  call void @run_together(ptr %team, ptr %table)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %runs
  br i1 %more, label %loop, label %done
done:
  %end = call i64 @team_clock()
  %total = sub i64 %end, %start
  ret i64 %total
}
"""
