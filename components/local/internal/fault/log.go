package fault

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Call is one request that could change something.
type Call struct {
	Seq    int       `json:"seq"`
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	// CVM is the name of the CVM it was about; empty when it was about none.
	CVM string `json:"cvm"`
	// Status is what the caller saw; 0 is no answer.
	Status int `json:"status"`
	// Executed is what the API answered, whatever the caller saw; 0: not executed.
	Executed int    `json:"executed"`
	Fault    string `json:"fault,omitempty"`
	Millis   int64  `json:"ms"`
}

const maxCalls = 20000

// Log keeps the last calls other than GET. Safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	seq   int
	calls []Call
}

func (l *Log) add(c Call) {
	if c.Method == http.MethodGet || c.Method == http.MethodHead {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	c.Seq = l.seq
	if len(l.calls) >= maxCalls {
		l.calls = slices.Delete(l.calls, 0, maxCalls/10)
	}
	l.calls = append(l.calls, c)
}

// Calls returns the calls about cvm; all when cvm is empty.
func (l *Log) Calls(cvm string) []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Call{}
	for _, c := range l.calls {
		if cvm == "" || c.CVM == cvm {
			out = append(out, c)
		}
	}
	return out
}

// Clear forgets the calls; sequence numbers go on.
func (l *Log) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = nil
}

type entryKey struct{}

func withEntry(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, entryKey{}, c)
}

// About notes which CVM the request turned out to be about.
func About(ctx context.Context, cvm string) {
	if c, ok := ctx.Value(entryKey{}).(*Call); ok {
		c.CVM = cvm
	}
}
