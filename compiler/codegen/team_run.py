"""A run of the program: its phases in order, each cut into a share for every member of the team, and those into pieces.

    void  program_run(team, table)          one run; the caller is member 0 of the team

The program around it gives, for a phase by its number:

    i64   program_phases()
    i64   program_pieces(table, phase, shares)
    void  program_phase(table, phase, share, shares)
    i1    program_is_small(table)

A program that is small is run by its caller alone. A team may run one program after the other: its state says whose
phases are under way. Its phase word is 2p + 1 while the p-th phase since the team's start is under way, and 2p between
runs, before it. Each member takes the share of its own number, so that it finds in its caches what it wrote there, one
piece after the other where the phase is long; one that has waited for SPINS_BEFORE_STEAL takes pieces that another
member has not begun, and does not wait in the next phase. Who ends the last piece of a phase opens the next. So nobody
waits for a member that another thread keeps from its core, unless that happened within a piece (`team_yield` sees to it
that it rarely does), a core that is slower than the others does less, and a member that comes back goes on where the
others are.

What a run returns does not depend on who computes which piece. The word of a share is 256 times the phase that it was
last begun in, and how many pieces of it are left. A piece is taken by moving the word, from an earlier phase to this
one or down; that succeeds only while the phase is under way, for it cannot end before all pieces have been taken and
done. Hence what is read after that (the table, the program, the first phase of the run) belongs to the same run, and
what is read before it is memory of the team alone.
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
declare i64 @program_pieces(ptr, i64, i64)
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
define internal i64 @take_piece(ptr %team, i64 %share, i64 %phase) {
entry:
  %line = call ptr @member_line(ptr %team, i64 %share)
  %taken.p = getelementptr i8, ptr %line, i64 32
  %pieces.p = getelementptr i8, ptr %team, i64 296
  %pieces = load atomic i64, ptr %pieces.p monotonic, align 8
  br label %look
look:
  %taken = load atomic i64, ptr %taken.p acquire, align 8
  %of = lshr i64 %taken, 8
  %left = and i64 %taken, 255
  %whole = icmp slt i64 %of, %phase
  %begun = icmp eq i64 %of, %phase
  %some = icmp ne i64 %left, 0
  %rest.here = and i1 %begun, %some
  %free = or i1 %whole, %rest.here
  br i1 %free, label %try, label %none
try:
  %rest = select i1 %whole, i64 %pieces, i64 %left
  %rest.after = sub i64 %rest, 1
  %phase.high = shl i64 %phase, 8
  %new = or i64 %phase.high, %rest.after
  %pair = cmpxchg ptr %taken.p, i64 %taken, i64 %new seq_cst seq_cst
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %mine, label %look
mine:
  %piece = sub i64 %pieces, %rest
  ret i64 %piece
none:
  ret i64 -1
}

define internal void @do_piece(ptr %team, i64 %share, i64 %piece, i64 %size, i64 %phase) {
entry:
  %done.p = getelementptr i8, ptr %team, i64 128
  %end.p = getelementptr i8, ptr %team, i64 136
  %table.p = getelementptr i8, ptr %team, i64 272
  %first.p = getelementptr i8, ptr %team, i64 280
  %phases.p = getelementptr i8, ptr %team, i64 288
  %pieces.p = getelementptr i8, ptr %team, i64 296
  %table = load ptr, ptr %table.p, align 8
  %first = load i64, ptr %first.p, align 8
  %phases = load ptr, ptr %phases.p, align 8
  %pieces = load atomic i64, ptr %pieces.p monotonic, align 8
  %end = load i64, ptr %end.p, align 8
  %place2 = sub i64 %phase, %first
  %place = lshr i64 %place2, 1
  %number.share = mul i64 %share, %pieces
  %number = add i64 %number.share, %piece
  %all = mul i64 %size, %pieces
  call void %phases(ptr %table, i64 %place, i64 %number, i64 %all)
  %before = atomicrmw add ptr %done.p, i32 1 acq_rel
  %now = add i32 %before, 1
  %all32 = trunc i64 %all to i32
  %last = icmp eq i32 %now, %all32
  br i1 %last, label %open, label %done
open:
  store atomic i32 0, ptr %done.p monotonic, align 4
  %next = add i64 %phase, 2
  %over = icmp eq i64 %next, %end
  br i1 %over, label %rest, label %follow
rest:
  %idle = add i64 %phase, 1
  call void @publish(ptr %team, i64 %idle)
  ret void
follow:
  %count.p = getelementptr i8, ptr %team, i64 304
  %count = load ptr, ptr %count.p, align 8
  %place.next = add i64 %place, 1
  %pieces.next = call i64 %count(ptr %table, i64 %place.next, i64 %size)
  call void @set_pieces(ptr %team, i64 %pieces.next)
  call void @publish(ptr %team, i64 %next)
  br label %done
done:
  ret void
}

define internal void @set_pieces(ptr %team, i64 %pieces) {
entry:
  %pieces.p = getelementptr i8, ptr %team, i64 296
  %now = load atomic i64, ptr %pieces.p monotonic, align 8
  %same = icmp eq i64 %now, %pieces
  br i1 %same, label %done, label %set
set:
  store atomic i64 %pieces, ptr %pieces.p monotonic, align 8
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
  %piece = call i64 @take_piece(ptr %team, i64 %id, i64 %phase)
  %mine = icmp sge i64 %piece, 0
  br i1 %mine, label %share, label %wait
share:
  call void @do_piece(ptr %team, i64 %id, i64 %piece, i64 %size, i64 %phase)
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
  %loot = call i64 @take_piece(ptr %team, i64 %i, i64 %phase)
  %stolen = icmp sge i64 %loot, 0
  br i1 %stolen, label %steal, label %scan
steal:
  call void @do_piece(ptr %team, i64 %i, i64 %loot, i64 %size, i64 %phase)
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
  %pieces.p = getelementptr i8, ptr %team, i64 304
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
  store ptr @program_pieces, ptr %pieces.p, align 8
  %shares = zext i32 %size to i64
  %pieces = call i64 @program_pieces(ptr %table, i64 0, i64 %shares)
  call void @set_pieces(ptr %team, i64 %pieces)
  call void @publish(ptr %team, i64 %first)
  call void @take_part(ptr %team, i64 0)
  br label %done
done:
  ret void
}
"""
