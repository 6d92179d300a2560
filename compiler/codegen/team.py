"""The team: native threads that share out every phase of a program, as LLVM IR so that a `.so` can hold them too.

    void  program_run(team, table)                  one run; the caller is member 0 of the team
    i64   program_time(team, table, before, runs)   nanoseconds that so many runs take, after some that are not counted
    i32   team_start(team)                          make the other members; 0, or the error of pthread_create
    void  team_stop(team)                           end and join them

How a phase is shared out is told in `team_run`, where members run in `team_places`, and how they make way for other
threads in `team_yield`. While there is nothing to do, members spin for a bounded time, then sleep on a futex, or at
once if their team was timed (`team_timed`). The state of a team is `team_bytes` of zeroed memory with the size stored
at SIZE_OFFSET; words that different members write lie on cache lines of their own. Where a Target has no threads the
team is its caller alone, and has neither state nor a clock, hence no `program_time`.
"""

from __future__ import annotations

from compiler.codegen.team_places import TEAM_PLACES
from compiler.codegen.team_run import (
    RUN_ALONE,
    SPINS_BEFORE_BLOCK,
    SPINS_BEFORE_DOUBT,
    SPINS_BEFORE_STEAL,
    TEAM_RUN,
)
from compiler.codegen.team_timed import TEAM_TIMED
from compiler.codegen.team_yield import CONTENDED_NS, LATE_NS, TEAM_YIELD, TURN_NS
from compiler.errors import TargetError
from compiler.target import Target

SIZE_OFFSET = 256
MEMBER_OFFSET = 320
MEMBER_BYTES = 64
SPINS_BEFORE_SLEEP = 200_000
"""A few milliseconds: waking a member that sleeps can cost half a millisecond on a virtual machine."""
ENDS, RESTS, GATHERS = 1, 2, 3
"""Words to members that have nothing to do: end; sleep at once; wake up, take a core of your own and spin. 0: spin."""


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
        "$NO_PATIENCE": str(SPINS_BEFORE_STEAL - 1),
        "$STEAL_AFTER": str(SPINS_BEFORE_STEAL),
        "$TURN": str(TURN_NS),
        "$LATE": str(LATE_NS),
        "$CONTENDED": str(CONTENDED_NS),
        "$ENDS": str(ENDS),
        "$RESTS": str(RESTS),
        "$GATHERS": str(GATHERS),
    }
    text = TEAM_PLACES + _TEAM + TEAM_YIELD + RUN_ALONE + TEAM_RUN + TEAM_TIMED
    for name, value in values.items():
        text = text.replace(name, value)
    return text


_WITHOUT_THREADS = ("wasm32",)
_ALONE = f"""{RUN_ALONE}
define i32 @team_start(ptr %team) {{
  ret i32 0
}}

define void @team_stop(ptr %team) {{
  ret void
}}

define void @program_run(ptr %team, ptr %table) {{
  call void @run_alone(ptr %table)
  ret void
}}
"""

_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}
_PAUSE_DECLARATION = {
    "x86_64": "declare void @llvm.x86.sse2.pause()",
    "aarch64": "declare void @llvm.aarch64.hint(i32)",
}

# team:   0 i64 phase | 64 i32 sleepers | 128 i32 shares done, 136 i64 end of the run
#         192 i32 contended, 200 i64 contended until | 256 i32 size, 264 i32 word to members without work,
#         272 ptr table, 280 i64 first phase of the run, 288 ptr program_phase, 296 i64 pieces of each share in this
#         phase, 304 ptr program_pieces | 320 members of 64 bytes
# member: 0 ptr team, 8 i64 id, 16 i64 thread, 24 i32 core + 1, 28 i32 crowded, 32 i64 what is left of share `id`
#         (`team_run`), 40 i64 on its core since
_TEAM = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
$DECLARE_PAUSE

define internal void @publish(ptr %team, i64 %phase) {
entry:
  %sleepers.p = getelementptr i8, ptr %team, i64 64
  store atomic i64 %phase, ptr %team seq_cst, align 8
  %asleep = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %wake = icmp ne i32 %asleep, 0
  br i1 %wake, label %ring, label %done
ring:
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %team, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  br label %done
done:
  ret void
}

define internal void @sleep_through(ptr %team, i64 %phase) {
  %sleepers.p = getelementptr i8, ptr %team, i64 64
  %low = trunc i64 %phase to i32
  %s0 = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  %w = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %team, i32 128, i32 %low, ptr null, ptr null, i32 0)
  %s1 = atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  ret void
}

define internal ptr @member_main(ptr %member) {
entry:
  %team = load ptr, ptr %member, align 8
  %id.p = getelementptr i8, ptr %member, i64 8
  %id = load i64, ptr %id.p, align 8
  %word.p = getelementptr i8, ptr %team, i64 264
  %caller = call ptr @member_line(ptr %team, i64 0)
  %caller.core = getelementptr i8, ptr %caller, i64 24
  %crowded.p = getelementptr i8, ptr %member, i64 28
  br label %idle
idle:
  %n = phi i32 [ 0, %entry ], [ %n.next, %again ], [ 0, %sleep ], [ 0, %ready ], [ 0, %share ]
  %slept = phi i1 [ false, %entry ], [ %slept, %again ], [ true, %sleep ], [ false, %ready ], [ false, %share ]
  %phase = load atomic i64, ptr %team acquire, align 8
  %runs = trunc i64 %phase to i1
  br i1 %runs, label %work, label %waiting
waiting:
  %n.next = add i32 %n, 1
  %word = load atomic i32, ptr %word.p acquire, align 4
  switch i32 %word, label %stay [
    i32 $ENDS, label %finish
    i32 $RESTS, label %sleep
    i32 $GATHERS, label %gathered
  ]
gathered:
  br i1 %slept, label %ready, label %again
ready:
  call void @member_apart(ptr %team, i64 %id)
  br label %idle
stay:
  %tired = icmp ugt i32 %n.next, $SLEEP_AFTER
  br i1 %tired, label %sleep, label %again
again:
  $PAUSE
  br label %idle
sleep:
  call void @sleep_through(ptr %team, i64 %phase)
  br label %idle
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
  call void @take_part(ptr %team, i64 %id)
  br label %idle
finish:
  ret ptr null
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
  %member = call ptr @member_line(ptr %team, i64 %id)
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
  %word.p = getelementptr i8, ptr %team, i64 264
  %size32 = load i32, ptr %size.p, align 4
  %size = zext i32 %size32 to i64
  store atomic i32 $ENDS, ptr %word.p release, align 4
  %phase = load i64, ptr %team, align 8
  %over = add i64 %phase, 2
  call void @publish(ptr %team, i64 %over)
  br label %next
next:
  %id = phi i64 [ 1, %entry ], [ %id.next, %join ]
  %more = icmp slt i64 %id, %size
  br i1 %more, label %join, label %done
join:
  %line = call ptr @member_line(ptr %team, i64 %id)
  %thread.p = getelementptr i8, ptr %line, i64 16
  %thread = load i64, ptr %thread.p, align 8
  %j = call i32 @pthread_join(i64 %thread, ptr null)
  %id.next = add i64 %id, 1
  br label %next
done:
  ret void
}
"""
