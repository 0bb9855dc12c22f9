package overlay

// Processors is on how many of a machine's processors a node should run that shares
// the machine with a workload: a quarter of them, at least one.
//
// A byte on its way through a node is passed on by several goroutines. On more than one
// processor each goroutine wakes the next one on another processor, which costs more than
// the work itself. On two, moving a gigabyte over UDP takes half as much processor time
// again (docs/decisions/0013-the-agent-uses-a-quarter-of-the-processors.md). The rest of
// the processors is the workload's.
func Processors(machine int) int { return max(1, machine/4) }
