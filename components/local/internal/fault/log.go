package fault

import (
	"context"
	"net/http"
	"slices"
	"strings"
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
	// Host is the host of dstack-vmm that it came to; empty on Phala's platform.
	Host string `json:"host,omitempty"`
	// Status is the status that the caller saw; 0 is no answer.
	Status int `json:"status"`
	// Executed is the API's own status, independent of the caller's; 0: not executed, or not over
	// yet.
	Executed int    `json:"executed"`
	Fault    string `json:"fault,omitempty"`
	Millis   int64  `json:"ms"`
}

const maxCalls = 20000

// Log keeps the last calls that may have an effect. Safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	seq   int
	calls []*entry
}

// reads reports that a call changes nothing: clients poll with a POST where they name many CVMs, and
// each call of dstack-vmm is a POST.
func (c Call) reads() bool {
	return c.Method == http.MethodGet || c.Method == http.MethodHead || strings.HasSuffix(c.Path, "/status/batch") || vmmReads(c.Path)
}

// vmmReads reports that a call of dstack-vmm changes nothing.
func vmmReads(path string) bool {
	if !strings.HasPrefix(path, "/prpc/") && !strings.HasPrefix(path, "/guest/") {
		return false
	}
	name := path[strings.LastIndexAny(path, "/.")+1:]
	switch name {
	case "CreateVm", "UpdateVm", "UpgradeApp", "ResizeVm", "StartVm", "StopVm", "ShutdownVm", "RemoveVm", "ReloadVms", "Shutdown":
		return false
	}
	return true
}

// begin enters a request when it comes, so that the log holds it before its caller
// can have an answer, and in the order of arrival.
func (l *Log) begin(c Call) *entry {
	e := &entry{log: l, call: c}
	if c.reads() {
		return e
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.call.Seq = l.seq
	if len(l.calls) >= maxCalls {
		l.calls = slices.Delete(l.calls, 0, maxCalls/10)
	}
	l.calls = append(l.calls, e)
	return e
}

// entry is a Call that may not be over yet.
type entry struct {
	log  *Log
	call Call // guarded by log.mu
}

// note changes the log entry of the request. It comes before the changed effect can be seen
// outside.
func (e *entry) note(change func(*Call)) {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	change(&e.call)
}

// Calls returns the calls about cvm; all when cvm is empty.
func (l *Log) Calls(cvm string) []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Call{}
	for _, e := range l.calls {
		if cvm == "" || e.call.CVM == cvm {
			out = append(out, e.call)
		}
	}
	return out
}

// Clear drops the calls; sequence numbers continue.
func (l *Log) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = nil
}

type entryKey struct{}

func withEntry(ctx context.Context, e *entry) context.Context {
	return context.WithValue(ctx, entryKey{}, e)
}

// About notes which CVM the request turned out to be about.
func About(ctx context.Context, cvm string) {
	if e, ok := ctx.Value(entryKey{}).(*entry); ok {
		e.note(func(c *Call) { c.CVM = cvm })
	}
}
