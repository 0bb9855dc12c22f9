// Package slowlink is a cable with delay, jitter, a rate, a queue, loss and
// reordering, in user space, for kernels without such a queueing discipline.
//
//	namespace A                 a process of its own                namespace B
//	┌──────────┐  IP packets  ┌───────────────────────────┐       ┌──────────┐
//	│ TUN      │─────────────►│ A→B: loss, queue, rate,   │──────►│      TUN │
//	│          │◄─────────────│ delay   ;   B→A: the same │◄──────│          │
//	└──────────┘   readv      └───────────────────────────┘ write └──────────┘
//
// A large packet that the kernel has not cut in segments yet (TCP and UDP segmentation
// offload) stays whole where all its segments have the same fate. It is cut only around a
// segment that is lost, held back or too late: one read and one write move up to 64 KiB.
// Rates, queues and losses count real segments all the same.
//
// The links run in a process of their own. So neither a busy scheduler nor the garbage
// collector of the program under test delays packets, and the CPU time of the links can
// be measured apart. The process is another copy of the program: init recognises it by an
// environment variable, never returns there, and ends when its control socket closes.
package slowlink
