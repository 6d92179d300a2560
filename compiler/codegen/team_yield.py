"""How the members of a team make way for other threads: between shares, before the system interrupts them within one.

    void  team_contended(team)      notes that a member had to wait for long
    void  member_yields(team, id)   for a while after that, and before each share: gives up the core once in TURN_NS

A system takes a core from a thread when its slice has run out, wherever it is, and gives it back only when that of the
other thread has. A member that loses its core within a share holds up the whole team for as long (4 ms at 250 Hz); one
that offers it between two shares loses it there, and the others take its shares meanwhile. A yield that comes back at
once cost one system call; one that comes back late shows that the core is still wanted.
"""

from __future__ import annotations

TURN_NS = 2_000_000
"""Less than a system leaves to a thread that shares its core (4 ms at 250 Hz), so that the core is lost here and not
within a share; more often, it would be lost more often."""
LATE_NS = 100_000
"""A yield that took so long gave the core to somebody."""
CONTENDED_NS = 1_000_000_000
"""How long cores count as contended after the last sign of it."""

# team: 192 i32 contended, 200 i64 until; member: 40 i64 since
TEAM_YIELD = """
declare i32 @sched_yield()

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

define internal void @team_contended(ptr %team) noinline {
  %flag.p = getelementptr i8, ptr %team, i64 192
  %until.p = getelementptr i8, ptr %team, i64 200
  %now = call i64 @team_clock()
  %until = add i64 %now, $CONTENDED
  store atomic i64 %until, ptr %until.p monotonic, align 8
  store atomic i32 1, ptr %flag.p monotonic, align 4
  ret void
}

define internal void @member_yields(ptr %team, i64 %id) noinline {
entry:
  %flag.p = getelementptr i8, ptr %team, i64 192
  %until.p = getelementptr i8, ptr %team, i64 200
  %line = call ptr @member_line(ptr %team, i64 %id)
  %since.p = getelementptr i8, ptr %line, i64 40
  %since = load i64, ptr %since.p, align 8
  %until = load atomic i64, ptr %until.p monotonic, align 8
  %now = call i64 @team_clock()
  %over = icmp sgt i64 %now, %until
  br i1 %over, label %calm, label %look
calm:
  store atomic i32 0, ptr %flag.p monotonic, align 4
  ret void
look:
  %turn = sub i64 %now, %since
  %due = icmp sge i64 %turn, $TURN
  br i1 %due, label %yield, label %done
yield:
  %y = call i32 @sched_yield()
  %back = call i64 @team_clock()
  store i64 %back, ptr %since.p, align 8
  %away = sub i64 %back, %now
  %late = icmp sgt i64 %away, $LATE
  br i1 %late, label %again, label %done
again:
  call void @team_contended(ptr %team)
  %core = call i32 @member_seen(ptr %team, i64 %id)
  %caller = call ptr @member_line(ptr %team, i64 0)
  %core.p = getelementptr i8, ptr %caller, i64 24
  %core.caller = load atomic i32, ptr %core.p monotonic, align 4
  %met = icmp eq i32 %core, %core.caller
  %member = icmp ne i64 %id, 0
  %crowded = and i1 %met, %member
  br i1 %crowded, label %apart, label %done
apart:
  call void @member_apart(ptr %team, i64 %id)
  br label %done
done:
  ret void
}
"""
