package control

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"cadre.dev/agent/internal/durable"
)

// termKeeper remembers the highest Terms across reboots. Safe for concurrent use.
type termKeeper struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	obeyed  uint64 // guarded by mu; of accepted desired state, on disk
	seen    uint64 // guarded by mu; of any message
	refused uint64 // guarded by mu; the Term refused last, so that it is logged once
}

type termFile struct {
	Term uint64 `json:"term"`
}

func openTerm(dir string, log *slog.Logger) (*termKeeper, error) {
	k := &termKeeper{path: filepath.Join(dir, "term.json"), log: log}
	var file termFile
	if _, err := durable.ReadJSON(k.path, 4096, &file); err != nil {
		return nil, fmt.Errorf("last term: %w", err)
	}
	k.obeyed, k.seen = file.Term, file.Term
	return k, nil
}

// obey reports whether desired state of term may be obeyed, and remembers a
// higher Term on disk before it says yes.
func (k *termKeeper) obey(term uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if term < k.obeyed {
		if k.refused != term {
			k.log.Warn("desired state of an older term is not obeyed", "term", term, "seen", k.obeyed)
		}
		k.refused = term
		return false
	}
	if term > k.obeyed {
		if err := durable.WriteJSON(k.path, termFile{Term: term}); err != nil {
			k.log.Error("term is not on disk, desired state is not obeyed", "term", term, "error", err)
			return false
		}
		k.obeyed = term
	}
	k.seen = max(k.seen, term)
	return true
}

// note remembers a Term of another message; false when it is an old leader's.
func (k *termKeeper) note(term uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if term < k.seen {
		return false
	}
	k.seen = term
	return true
}

func (k *termKeeper) highest() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}
