package e2e_backup

import (
	"context"
	"sync"
	"time"
)

// row is one write with the times of its beginning and its acknowledgement.
type row struct {
	id                 int64
	sent, acknowledged time.Time
}

// writer writes one row after the other into the leader.
type writer struct {
	s     *story
	end   context.CancelFunc
	ended chan struct{}

	mu   sync.Mutex // guards rows
	rows []row
}

func (s *story) write(ctx context.Context, leader string) *writer {
	s.Helper()
	c, err := s.AsSuperuser(ctx, leader, "app")
	s.must("log in", err)
	_, err = c.Exec(ctx, "CREATE TABLE marks (id bigint PRIMARY KEY, text text)")
	s.must("make the table", err)
	running, end := context.WithCancel(ctx)
	w := &writer{s: s, end: end, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		defer c.Close(context.WithoutCancel(ctx))
		for id := int64(1); running.Err() == nil; id++ {
			r := row{id: id, sent: time.Now()}
			// ctx: the last write is not broken off in the middle.
			if _, err := c.Exec(ctx, "INSERT INTO marks VALUES ($1, $2)", id, marker); err != nil {
				s.Errorf("write row %d: %v", id, err)
				return
			}
			r.acknowledged = time.Now()
			w.mu.Lock()
			w.rows = append(w.rows, r)
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rows)
}

// await waits until n more rows are acknowledged.
func (w *writer) await(ctx context.Context, n int) {
	w.s.Helper()
	want := w.count() + n
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for w.count() < want {
		select {
		case <-w.ended:
			w.s.Fatal("the writer ended")
		case <-ctx.Done():
			w.s.Fatal(ctx.Err())
		case <-tick.C:
		}
	}
}

func (w *writer) stop() []row {
	w.end()
	<-w.ended
	return w.rows
}
