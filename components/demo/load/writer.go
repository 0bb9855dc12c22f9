package load

import (
	"context"
	"sync"
	"time"
)

// Target is the system under load. Connections belong to one writer at a time.
type Target interface {
	// Connect opens a connection that can write; it may try several servers.
	Connect(ctx context.Context) (Conn, error)
	// IDs reads every written id from the system's leader.
	IDs(ctx context.Context) (IDs, error)
}

// Conn is one connection of one writer.
type Conn interface {
	// Write stores id and returns the address of the server that acknowledged it.
	Write(ctx context.Context, id int64) (server string, err error)
	// Healthy is false when the connection must be replaced.
	Healthy() bool
	Close(ctx context.Context)
}

// Config of a Writer.
type Config struct {
	// Writers run at once; Interval is the time from one attempt's start to the
	// next one's, unless the attempt takes longer.
	Writers  int
	Interval time.Duration
	// Deadline of one attempt, connecting included.
	Deadline time.Duration
}

// Writer drives a Target. Run it once.
type Writer struct {
	cfg     Config
	target  Target
	journal *Journal
}

// NewWriter returns a Writer that records in journal.
func NewWriter(cfg Config, target Target, journal *Journal) *Writer {
	return &Writer{cfg: cfg, target: target, journal: journal}
}

// Run writes until ctx ends. Attempts that are under way then are finished and recorded.
// The error is the journal's: nothing that cannot be recorded is written.
func (w *Writer) Run(ctx context.Context) error {
	var writers sync.WaitGroup
	for range w.cfg.Writers {
		writers.Go(func() { w.loop(ctx) })
	}
	writers.Wait()
	return w.journal.Flush()
}

func (w *Writer) loop(ctx context.Context) {
	var conn Conn
	defer func() {
		if conn != nil {
			conn.Close(ctx)
		}
	}()
	ticker := time.NewTicker(w.cfg.Interval)
	defer ticker.Stop()
	for w.journal.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		conn = w.attempt(ctx, conn)
	}
}

// attempt makes one write and returns the connection for the next one, or nil.
func (w *Writer) attempt(ctx context.Context, conn Conn) Conn {
	// The attempt outlives a stop, so that its outcome is known and recorded.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Deadline)
	defer cancel()
	id, err := w.journal.Next()
	if err != nil {
		return conn // the loop ends
	}
	op := Op{ID: id, Start: time.Now()}
	if conn == nil {
		conn, err = w.target.Connect(ctx)
	}
	if err == nil {
		op.Server, err = conn.Write(ctx, op.ID)
	}
	op.End = time.Now()
	if err != nil {
		op.Server, op.Error = "", errorClass(err)
	}
	_ = w.journal.Add(op) // its error stays, and ends the loop
	if conn != nil && (err != nil || !conn.Healthy()) {
		conn.Close(ctx)
		return nil
	}
	return conn
}
