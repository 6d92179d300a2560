"""Where the members of a team run: each on a core of its own, while the cores that its caller may use suffice.

    i32   member_seen(team, id)     says on which core member `id` is: its number plus one
    void  caller_seen(team)         says who calls, and on which core: it is member 0
    void  member_apart(team, id)    moves member `id` to where the caller may run and no other member was last seen

Systems put a thread that wakes where its waker runs, and some leave it there (virtual machines that pack threads onto
few cores): then one member waits until the other is done, and two threads take as long as one, or longer. The caller
is the user's thread and is never moved; the members give way, and only for the moment: what pins them after that is
the caller's own affinity. While they are apart nothing here is a system call, for the C library reads the number of
the core from memory. A member that found no core for itself is `crowded`, and stays so until it has slept.
"""

from __future__ import annotations

# member: 16 i64 thread, 24 i32 core + 1 where it was last seen (0: nowhere yet), 28 i32 crowded
TEAM_PLACES = """
declare i32 @sched_getcpu()
declare i64 @pthread_self()
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i64 @llvm.vector.reduce.or.v16i64(<16 x i64>)

define internal ptr @member_line(ptr %team, i64 %id) {
  %offset = mul i64 %id, 64
  %place = add i64 %offset, 320
  %line = getelementptr i8, ptr %team, i64 %place
  ret ptr %line
}

define internal i32 @member_seen(ptr %team, i64 %id) {
  %line = call ptr @member_line(ptr %team, i64 %id)
  %core.p = getelementptr i8, ptr %line, i64 24
  %number = call i32 @sched_getcpu()
  %core = add i32 %number, 1
  store atomic i32 %core, ptr %core.p monotonic, align 4
  ret i32 %core
}

define internal void @caller_seen(ptr %team) {
  %line = call ptr @member_line(ptr %team, i64 0)
  %thread.p = getelementptr i8, ptr %line, i64 16
  %thread = call i64 @pthread_self()
  store i64 %thread, ptr %thread.p, align 8
  %core = call i32 @member_seen(ptr %team, i64 0)
  ret void
}

define internal void @member_apart(ptr %team, i64 %id) noinline {
entry:
  %allowed = alloca [128 x i8], align 8
  %free = alloca [128 x i8], align 8
  %line = call ptr @member_line(ptr %team, i64 %id)
  %crowded.p = getelementptr i8, ptr %line, i64 28
  %own = call i32 @member_seen(ptr %team, i64 %id)
  %caller = call ptr @member_line(ptr %team, i64 0)
  %thread.p = getelementptr i8, ptr %caller, i64 16
  %thread = load i64, ptr %thread.p, align 8
  %failed = call i32 @pthread_getaffinity_np(i64 %thread, i64 128, ptr %allowed)
  %known = icmp eq i32 %failed, 0
  br i1 %known, label %others, label %done
others:
  %all = load <16 x i64>, ptr %allowed, align 8
  store <16 x i64> %all, ptr %free, align 8
  %size.p = getelementptr i8, ptr %team, i64 256
  %size32 = load i32, ptr %size.p, align 4
  %size = zext i32 %size32 to i64
  br label %other
other:
  %j = phi i64 [ 0, %others ], [ %j.next, %next ]
  %met = phi i1 [ false, %others ], [ %met.next, %next ]
  %j.line = call ptr @member_line(ptr %team, i64 %j)
  %core.p = getelementptr i8, ptr %j.line, i64 24
  %core = load atomic i32, ptr %core.p monotonic, align 4
  %self = icmp eq i64 %j, %id
  %number = sub i32 %core, 1
  %beyond = icmp uge i32 %number, 1024
  %skip = or i1 %self, %beyond
  br i1 %skip, label %next, label %taken
taken:
  %same = icmp eq i32 %core, %own
  %met.now = or i1 %met, %same
  %byte = lshr i32 %number, 3
  %byte.p = getelementptr i8, ptr %free, i32 %byte
  %bit = and i32 %number, 7
  %bit8 = trunc i32 %bit to i8
  %one = shl i8 1, %bit8
  %rest = xor i8 %one, -1
  %old = load i8, ptr %byte.p, align 1
  %new = and i8 %old, %rest
  store i8 %new, ptr %byte.p, align 1
  br label %next
next:
  %met.next = phi i1 [ %met, %other ], [ %met.now, %taken ]
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %size
  br i1 %more, label %other, label %judge
judge:
  %left = load <16 x i64>, ptr %free, align 8
  %any = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %left)
  %none = icmp eq i64 %any, 0
  %crowded = zext i1 %none to i32
  store i32 %crowded, ptr %crowded.p, align 4
  %mine = sub i32 %own, 1
  %mine.byte = lshr i32 %mine, 3
  %inside = icmp ult i32 %mine, 1024
  br i1 %inside, label %look, label %done
look:
  %mine.p = getelementptr i8, ptr %allowed, i32 %mine.byte
  %mine.bit = and i32 %mine, 7
  %mine.bit8 = trunc i32 %mine.bit to i8
  %mine.old = load i8, ptr %mine.p, align 1
  %mine.shifted = lshr i8 %mine.old, %mine.bit8
  %may = trunc i8 %mine.shifted to i1
  %no.better = xor i1 %met.next, true
  %settled = or i1 %no.better, %none
  %stay = and i1 %may, %settled
  br i1 %stay, label %done, label %move
move:
  %chosen = select i1 %none, ptr %allowed, ptr %free
  %this = call i64 @pthread_self()
  %moved = call i32 @pthread_setaffinity_np(i64 %this, i64 128, ptr %chosen)
  %freed = call i32 @pthread_setaffinity_np(i64 %this, i64 128, ptr %allowed)
  %now = call i32 @member_seen(ptr %team, i64 %id)
  br label %done
done:
  ret void
}
"""
