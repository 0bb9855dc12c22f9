package parent

import "time"

const (
	// steady is how long a worker must have run for its end to be answered at once.
	steady = 10 * time.Second
	// pauseFirst and pauseMost bound the wait before the third start in a row and later ones.
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 5 * time.Second
	// hangsMost is how many workers in a row may hang within hangsWithin of their start. After that
	// the cause is assumed to persist, and each further restart would cut the workload's
	// connections.
	hangsMost   = 3
	hangsWithin = 15 * time.Minute
)

// restarts decides when a worker is started again.
type restarts struct {
	steady time.Duration
	// ran: one was steady, so that there is something to outlive.
	ran bool
	// failures in a row, and hangs.
	failures, hangs int
}

// exit is how a worker ended.
type exit struct {
	// code is -1 when a signal ended it.
	code int
	// signal is its name, "" for none.
	signal string
	lived  time.Duration
	// hung: the parent ended the worker, since its beats stopped.
	hung bool
}

// next is the parent's reaction to an exit.
type next struct {
	// end ends the parent with the worker's code.
	end bool
	// spent: the worker ended in order, and so its Boot: the next is another.
	spent bool
	// pause before the next start.
	pause time.Duration
	// leave the next one alone, also where it hangs.
	leave bool
}

// after decides. Until one worker was steady, the parent exits with the worker's error: no state
// would be lost, and the container's runtime sees the error.
func (r restarts) after(e exit) (restarts, next) {
	if e.lived >= r.steady {
		r.ran, r.failures = true, 0
	}
	if e.code > 0 && !r.ran {
		return r, next{end: true}
	}
	r.failures++
	switch {
	case !e.hung:
		r.hangs = 0
	case e.lived > hangsWithin:
		r.hangs = 1
	default:
		r.hangs++
	}
	out := next{spent: e.code == 0 && !e.hung, leave: r.hangs >= hangsMost}
	if r.failures > 1 {
		out.pause = min(pauseFirst<<min(r.failures-2, 16), pauseMost)
	}
	return r, out
}
