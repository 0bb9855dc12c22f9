package peer

import "sync"

// loop owns a value. It runs functions one after the other, in the order of their posting,
// and only these functions touch the value. There is a goroutine only while there is a
// function to run. Set value in a zero loop to make it ready; safe for concurrent use.
type loop[T any] struct {
	value T // of the function that runs

	mu      sync.Mutex
	queue   []func(T) // guarded by mu
	running bool      // guarded by mu
	closed  bool      // guarded by mu
	wg      sync.WaitGroup
}

// post has f run soon, and never waits; false when the loop is closed. f must not wait for
// the loop.
func (l *loop[T]) post(f func(T)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, f)
	if !l.running {
		l.running = true
		l.wg.Go(l.run)
	}
	return true
}

// ask is post, and waits until f has run. It must not be called from within the loop.
func (l *loop[T]) ask(f func(T)) bool {
	done := make(chan struct{})
	ran := l.post(func(v T) {
		defer close(done)
		f(v)
	})
	if ran {
		<-done
	}
	return ran
}

func (l *loop[T]) run() {
	for {
		l.mu.Lock()
		queue := l.queue
		l.queue, l.running = nil, len(queue) > 0
		l.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, f := range queue {
			f(l.value)
		}
	}
}

// close accepts no further function, and returns when all accepted functions have run.
func (l *loop[T]) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wg.Wait()
}
