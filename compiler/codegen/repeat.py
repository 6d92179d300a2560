"""Running a program again and again while pointers of its table move on, as the iterations of a loop do.

i64   repeat(run, team, table, moves, count, counter, first, rows, going)     how many runs there were, `rows` at most

move  ::= slot, start, step, period, lag       five 64-bit numbers
going ::= start, step, period                  of a byte that is 0 after the last run; none where the pointer is null

Before run number r, which counts from 0, each slot gets start + ((r - lag) % period) * step, unless r < lag, and the
counter, if there is one, first + r.
"""

from __future__ import annotations

REPEAT = """
define i64 @repeat(ptr %run, ptr %team, ptr %table, ptr %moves, i64 %count,
                   ptr %counter, i64 %first, i64 %rows, ptr %going) {
entry:
  %counts = icmp ne ptr %counter, null
  %asks = icmp ne ptr %going, null
  br label %loop
loop:
  %row = phi i64 [ 0, %entry ], [ %next, %again ]
  br i1 %counts, label %number, label %move
number:
  %n = add i64 %first, %row
  store i64 %n, ptr %counter, align 8
  br label %move
move:
  %m = phi i64 [ 0, %loop ], [ 0, %number ], [ %m.next, %moved ]
  %all = icmp sge i64 %m, %count
  br i1 %all, label %call, label %point
point:
  %at = getelementptr [5 x i64], ptr %moves, i64 %m
  %lag.p = getelementptr i64, ptr %at, i64 4
  %lag = load i64, ptr %lag.p, align 8
  %place = sub i64 %row, %lag
  %early = icmp slt i64 %place, 0
  br i1 %early, label %moved, label %write
write:
  %slot = load i64, ptr %at, align 8
  %start.p = getelementptr i64, ptr %at, i64 1
  %start = load i64, ptr %start.p, align 8
  %step.p = getelementptr i64, ptr %at, i64 2
  %step = load i64, ptr %step.p, align 8
  %period.p = getelementptr i64, ptr %at, i64 3
  %period = load i64, ptr %period.p, align 8
  %turn = urem i64 %place, %period
  %far = mul i64 %turn, %step
  %pointer = add i64 %start, %far
  %entry.p = getelementptr i64, ptr %table, i64 %slot
  store i64 %pointer, ptr %entry.p, align 8
  br label %moved
moved:
  %m.next = add i64 %m, 1
  br label %move
call:
  call void %run(ptr %team, ptr %table)
  %next = add i64 %row, 1
  br i1 %asks, label %ask, label %again
ask:
  %go.start = load i64, ptr %going, align 8
  %go.step.p = getelementptr i64, ptr %going, i64 1
  %go.step = load i64, ptr %go.step.p, align 8
  %go.period.p = getelementptr i64, ptr %going, i64 2
  %go.period = load i64, ptr %go.period.p, align 8
  %go.turn = urem i64 %row, %go.period
  %go.far = mul i64 %go.turn, %go.step
  %go.at = add i64 %go.start, %go.far
  %go.p = inttoptr i64 %go.at to ptr
  %flag = load i8, ptr %go.p, align 1
  %goes = icmp ne i8 %flag, 0
  br i1 %goes, label %again, label %done
again:
  %more = icmp slt i64 %next, %rows
  br i1 %more, label %loop, label %done
done:
  ret i64 %next
}
"""
"""The IR module."""
