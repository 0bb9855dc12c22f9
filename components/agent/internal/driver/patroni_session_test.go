package driver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// ack is one write that a member acknowledged.
type ack struct {
	id                  int
	asked, acknowledged time.Time
}

// session writes to one member all the time, by one connection for as long as that lives: a
// replica's lives through its promotion, so the first write after it shows the moment.
type session struct {
	host string
	base int // ids are base+1, base+2, ...

	mu   sync.Mutex
	acks []ack // guarded by mu
}

// between is how long a session rests between two writes.
const between = 5 * time.Millisecond

// startSessions writes to all hosts until the returned function is called.
func startSessions(t *testing.T, psql string, hosts []string) (all []*session, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var writing sync.WaitGroup
	for i, host := range hosts {
		s := &session{host: host, base: (i + 1) * 100_000_000}
		all = append(all, s)
		writing.Go(func() {
			next := s.base
			for ctx.Err() == nil {
				next = s.connection(ctx, psql, next)
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	stop = func() {
		cancel()
		writing.Wait()
	}
	t.Cleanup(stop)
	return all, stop
}

// connection writes by one psql until its connection ends, and returns the last id it used.
func (s *session) connection(ctx context.Context, psql string, last int) int {
	cmd := exec.CommandContext(ctx, psql, "-XAtq",
		"host="+s.host+" user=postgres password=test dbname=postgres connect_timeout=2")
	in, err := cmd.StdinPipe()
	if err != nil {
		return last
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return last
	}
	defer cmd.Wait() //nolint:errcheck // the exit code does not matter
	defer in.Close() //nolint:errcheck // only the end of the connection matters
	lines := bufio.NewReader(out)
	for {
		last++
		start := time.Now()
		acked, err := write(in, lines, last)
		if err != nil {
			return last
		}
		if acked {
			s.mu.Lock()
			s.acks = append(s.acks, ack{last, start, time.Now()})
			s.mu.Unlock()
		}
		select {
		case <-time.After(between):
		case <-ctx.Done():
			return last
		}
	}
}

// write inserts id, unless this is a replica, and reports whether that was acknowledged.
func write(in io.Writer, lines *bufio.Reader, id int) (acked bool, err error) {
	const text = `SELECT NOT pg_is_in_recovery() AS writable \gset
\if :writable
INSERT INTO kept VALUES (%d) RETURNING id;
\endif
\echo end
`
	if _, err := fmt.Fprintf(in, text, id); err != nil {
		return false, err
	}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return acked, err
		}
		switch strings.TrimSpace(line) {
		case strconv.Itoa(id):
			acked = true
		case "end":
			return acked, nil
		}
	}
}

// since are the writes that were acknowledged after at.
func (s *session) since(at time.Time) []ack {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.acks)
	for i > 0 && s.acks[i-1].acknowledged.After(at) {
		i--
	}
	return append([]ack(nil), s.acks[i:]...)
}
