"""The team: native threads that enter a whole program together, emitted as LLVM IR so that a `.so` can hold them too.

    void  program_run(team, table)          one run; the caller is member 0 of the team
    i64   program_time(team, table, runs)   nanoseconds that so many runs take, measured here
    i32   team_start(team)                  make the other members; 0, or the error of pthread_create
    void  team_stop(team)                   end and join them
    void  team_barrier(team, id)            for the program: every member meets here

Between runs the members spin for a bounded time, then sleep on a futex; at a barrier they do the same, for less. They
keep off each other's cores (`team_places`), and their caller goes on alone while another thread keeps them from
theirs (`team_run`). The team's state is `team_bytes` of zeroed memory with the size stored at SIZE_OFFSET; words that
different members write lie on cache lines of their own. Where a Target has no threads the team is its caller alone,
and has neither state nor a clock, hence no `program_time`.
"""

from __future__ import annotations

from compiler.codegen.team_places import TEAM_PLACES
from compiler.codegen.team_run import MAX_REST_NS, MIN_REST_NS, PATIENCE, SPINS_BEFORE_DOUBT, TEAM_RUN
from compiler.errors import TargetError
from compiler.target import Target

SIZE_OFFSET = 256
MEMBER_OFFSET = 320
MEMBER_BYTES = 64
SPINS_BEFORE_SLEEP = 200_000
"""A few milliseconds: waking a member that sleeps can cost half a millisecond on a virtual machine."""
SPINS_BEFORE_BLOCK = 100_000
"""A millisecond or two at a barrier; then the core is free, and a member that lost its own can move there."""


def team_bytes(threads: int) -> int:
    """Size of the state of a team."""
    return MEMBER_OFFSET + MEMBER_BYTES * threads


def check_team(target: Target, threads: int) -> None:
    """Raise TargetError where the Target has no program for so many threads."""
    if target.instruction_set in _WITHOUT_THREADS:
        if threads > 1:
            msg = f"{target.name} has no threads; compile for 1 thread instead of {threads}"
            raise TargetError(msg)
    elif target.instruction_set not in _FUTEX or "linux" not in target.triple:
        msg = (
            f"no program can be made for {target.name} ({target.triple}), only single kernels; "
            "compile for Linux on x86_64 or aarch64, or for wasm32"
        )
        raise TargetError(msg)


def emit_team(target: Target) -> str:
    """The team's IR module, of one member where there are no threads; raises TargetError as `check_team` does."""
    check_team(target, threads=1)
    arch = target.instruction_set
    if arch in _WITHOUT_THREADS:
        return _ALONE
    values = {
        "$FUTEX": str(_FUTEX[arch]),
        "$PAUSE": _PAUSE[arch],
        "$DECLARE_PAUSE": _PAUSE_DECLARATION[arch],
        "$SLEEP_AFTER": str(SPINS_BEFORE_SLEEP),
        "$BLOCK_AFTER": str(SPINS_BEFORE_BLOCK),
        "$DOUBT_AFTER": str(SPINS_BEFORE_DOUBT),
        "$MIN_REST": str(MIN_REST_NS),
        "$MAX_REST": str(MAX_REST_NS),
        "$PATIENCE": str(PATIENCE),
    }
    text = TEAM_PLACES + _TEAM + TEAM_RUN
    for name, value in values.items():
        text = text.replace(name, value)
    return text


_WITHOUT_THREADS = ("wasm32",)
_ALONE = """
declare void @program(ptr, ptr, i64, i64)

define void @team_barrier(ptr %team, i64 %id) {
  ret void
}

define i32 @team_start(ptr %team) {
  ret i32 0
}

define void @team_stop(ptr %team) {
  ret void
}

define void @program_run(ptr %team, ptr %table) {
  call void @program(ptr %team, ptr %table, i64 0, i64 1)
  ret void
}
"""

_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}
_PAUSE_DECLARATION = {
    "x86_64": "declare void @llvm.x86.sse2.pause()",
    "aarch64": "declare void @llvm.aarch64.hint(i32)",
}

# team:   0 i32 generation | 64 i32 waiters | 128 i32 arrived | 192 i32 phase
#         256 i32 size, 260 i32 sleepers, 264 i32 stop, 272 ptr table | 320 members of 64 bytes
# member: 0 ptr team, 8 i64 id, 16 i64 thread, 24 i32 core + 1, 28 i32 crowded
_TEAM = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
$DECLARE_PAUSE
declare void @program(ptr, ptr, i64, i64)

define void @team_barrier(ptr %team, i64 %id) {
entry:
  %size.p = getelementptr i8, ptr %team, i64 256
  %arrived.p = getelementptr i8, ptr %team, i64 128
  %phase.p = getelementptr i8, ptr %team, i64 192
  %waiters.p = getelementptr i8, ptr %team, i64 64
  %size = load i32, ptr %size.p, align 4
  %alone = icmp eq i32 %size, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %phase = load atomic i32, ptr %phase.p acquire, align 4
  %before = atomicrmw add ptr %arrived.p, i32 1 acq_rel
  %now = add i32 %before, 1
  %last = icmp eq i32 %now, %size
  br i1 %last, label %open, label %wait
open:
  store atomic i32 0, ptr %arrived.p monotonic, align 4
  %next = add i32 %phase, 1
  store atomic i32 %next, ptr %phase.p seq_cst, align 4
  %asleep = load atomic i32, ptr %waiters.p seq_cst, align 4
  %wake = icmp ne i32 %asleep, 0
  br i1 %wake, label %ring, label %done
ring:
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %phase.p, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  ret void
wait:
  %spins = phi i32 [ 0, %arrive ], [ %spins.next, %again ], [ 0, %block ]
  $PAUSE
  %seen = load atomic i32, ptr %phase.p acquire, align 4
  %same = icmp eq i32 %seen, %phase
  br i1 %same, label %waiting, label %done
waiting:
  %spins.next = add i32 %spins, 1
  %doubtful = icmp eq i32 %spins.next, $DOUBT_AFTER
  %caller = icmp eq i64 %id, 0
  %noted = and i1 %doubtful, %caller
  br i1 %noted, label %note, label %patient
note:
  %waited.p = getelementptr i8, ptr %team, i64 380
  store i32 1, ptr %waited.p, align 4
  br label %patient
patient:
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
  %s0 = atomicrmw add ptr %waiters.p, i32 1 seq_cst
  %w = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %phase.p, i32 128, i32 %phase, ptr null, ptr null, i32 0)
  %s1 = atomicrmw sub ptr %waiters.p, i32 1 seq_cst
  %core = call i32 @member_seen(ptr %team, i64 %id)
  br label %wait
done:
  ret void
}

define internal ptr @member_main(ptr %member) {
entry:
  %team = load ptr, ptr %member, align 8
  %id.p = getelementptr i8, ptr %member, i64 8
  %id = load i64, ptr %id.p, align 8
  %size.p = getelementptr i8, ptr %team, i64 256
  %sleepers.p = getelementptr i8, ptr %team, i64 260
  %stop.p = getelementptr i8, ptr %team, i64 264
  %table.p = getelementptr i8, ptr %team, i64 272
  %caller = call ptr @member_line(ptr %team, i64 0)
  %caller.core = getelementptr i8, ptr %caller, i64 24
  %crowded.p = getelementptr i8, ptr %member, i64 28
  br label %idle
idle:
  %last = phi i32 [ 0, %entry ], [ %generation, %share ]
  br label %spin
spin:
  %n = phi i32 [ 0, %idle ], [ %n.next, %again ], [ 0, %sleep ]
  %slept = phi i1 [ false, %idle ], [ %slept, %again ], [ true, %sleep ]
  %generation = load atomic i32, ptr %team acquire, align 4
  %new = icmp ne i32 %generation, %last
  br i1 %new, label %called, label %waiting
waiting:
  %n.next = add i32 %n, 1
  %tired = icmp ugt i32 %n.next, $SLEEP_AFTER
  br i1 %tired, label %sleep, label %again
again:
  $PAUSE
  br label %spin
sleep:
  %s0 = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  %w = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %team, i32 128, i32 %last, ptr null, ptr null, i32 0)
  %s1 = atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  br label %spin
called:
  %stop = load i32, ptr %stop.p, align 4
  %ends = icmp ne i32 %stop, 0
  br i1 %ends, label %finish, label %work
work:
  %core = call i32 @member_seen(ptr %team, i64 %id)
  %core.caller = load atomic i32, ptr %caller.core monotonic, align 4
  %met = icmp eq i32 %core, %core.caller
  %crowded = load i32, ptr %crowded.p, align 4
  %hopeful = icmp eq i32 %crowded, 0
  %gives.way = and i1 %met, %hopeful
  %looks = or i1 %gives.way, %slept
  br i1 %looks, label %apart, label %share
apart:
  call void @member_apart(ptr %team, i64 %id)
  br label %share
share:
  %table = load ptr, ptr %table.p, align 8
  %size32 = load i32, ptr %size.p, align 4
  %size = zext i32 %size32 to i64
  call void @program(ptr %team, ptr %table, i64 %id, i64 %size)
  call void @team_barrier(ptr %team, i64 %id)
  br label %idle
finish:
  ret ptr null
}

define internal void @call_members(ptr %team) {
entry:
  %sleepers.p = getelementptr i8, ptr %team, i64 260
  %g = atomicrmw add ptr %team, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %wake = icmp ne i32 %asleep, 0
  br i1 %wake, label %ring, label %done
ring:
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %team, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  br label %done
done:
  ret void
}

define i32 @team_start(ptr %team) {
entry:
  %size.p = getelementptr i8, ptr %team, i64 256
  %size32 = load i32, ptr %size.p, align 4
  %size = zext i32 %size32 to i64
  br label %next
next:
  %id = phi i64 [ 1, %entry ], [ %id.next, %made ]
  %more = icmp slt i64 %id, %size
  br i1 %more, label %make, label %done
make:
  %offset = mul i64 %id, 64
  %place = add i64 %offset, 320
  %member = getelementptr i8, ptr %team, i64 %place
  store ptr %team, ptr %member, align 8
  %id.p = getelementptr i8, ptr %member, i64 8
  store i64 %id, ptr %id.p, align 8
  %thread.p = getelementptr i8, ptr %member, i64 16
  %failed = call i32 @pthread_create(ptr %thread.p, ptr null, ptr @member_main, ptr %member)
  %id.next = add i64 %id, 1
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %made, label %short
made:
  br label %next
short:
  %made32 = trunc i64 %id to i32
  store i32 %made32, ptr %size.p, align 4
  ret i32 %failed
done:
  ret i32 0
}

define void @team_stop(ptr %team) {
entry:
  %size.p = getelementptr i8, ptr %team, i64 256
  %stop.p = getelementptr i8, ptr %team, i64 264
  %size32 = load i32, ptr %size.p, align 4
  %size = zext i32 %size32 to i64
  store i32 1, ptr %stop.p, align 4
  call void @call_members(ptr %team)
  br label %next
next:
  %id = phi i64 [ 1, %entry ], [ %id.next, %join ]
  %more = icmp slt i64 %id, %size
  br i1 %more, label %join, label %done
join:
  %offset = mul i64 %id, 64
  %place = add i64 %offset, 336
  %thread.p = getelementptr i8, ptr %team, i64 %place
  %thread = load i64, ptr %thread.p, align 8
  %j = call i32 @pthread_join(i64 %thread, ptr null)
  %id.next = add i64 %id, 1
  br label %next
done:
  ret void
}
"""
