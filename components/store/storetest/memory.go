package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/store"
	"cadre.dev/store/internal/leasing"
)

// MemoryConfig of a Memory; the zero value has the defaults of Consul.
type MemoryConfig struct {
	// Clock of sessions and resyncs; nil: the machine's (virtual in a synctest bubble).
	Clock Clock
	// SessionTTL default 10s; Margin default a fifth of it; Resync default 60s.
	SessionTTL, Margin, Resync time.Duration
}

// Memory is a Store in memory with the semantics of Consul: one index for all writes, a put of the
// same value keeps the index, transactions see their own earlier operations, deletions count for
// List's index. Safe for concurrent use.
type Memory struct {
	// Constant after NewMemory.
	cfg MemoryConfig

	mu sync.Mutex
	// index of the last transaction, committed or rolled back.
	index uint64
	// written is the index of the last transaction that changed a key.
	written uint64
	items   map[string]item
	// keys of items, sorted.
	keys []string
	// graves are the indices of deletions.
	graves map[string]uint64
	// waiters are woken by a change below their prefix.
	waiters  map[*waiter]struct{}
	sessions map[string]*session
	leases   map[*memoryLease]struct{}
	sequence int
	maxTerm  uint64
	faults   faults
	// committed is called with each transaction; guarded by mu.
	committed func(Committed)
}

type item struct {
	value   []byte
	index   uint64
	session string
}

// waiter is a Watch that waits for a change below its prefix.
type waiter struct {
	prefix string
	woken  chan struct{}
}

var _ store.Store = (*Memory)(nil)

// NewMemory makes an empty Memory with the defaults.
func NewMemory() *Memory { return NewMemoryWith(MemoryConfig{}) }

// NewMemoryWith makes an empty Memory.
func NewMemoryWith(cfg MemoryConfig) *Memory {
	if cfg.Clock == nil {
		cfg.Clock = leasing.System{}
	}
	if cfg.SessionTTL == 0 {
		cfg.SessionTTL = 10 * time.Second
	}
	if cfg.Margin == 0 {
		cfg.Margin = cfg.SessionTTL / 5
	}
	if cfg.Resync == 0 {
		cfg.Resync = time.Minute
	}
	return &Memory{
		cfg: cfg, index: 1, written: 1,
		items: make(map[string]item), graves: make(map[string]uint64),
		waiters: make(map[*waiter]struct{}), sessions: make(map[string]*session),
		leases: make(map[*memoryLease]struct{}),
	}
}

// Get reads one key.
func (m *Memory) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Entry{}, err
	}
	if err := m.beforeRead(ctx); err != nil {
		return store.Entry{}, fmt.Errorf("read %s: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.items[key]
	if !ok {
		return store.Entry{}, fmt.Errorf("read %s: %w", key, store.ErrNotFound)
	}
	return found.entry(key), nil
}

// List reads everything below prefix, sorted by key.
func (m *Memory) List(ctx context.Context, prefix string) ([]store.Entry, uint64, error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, 0, err
	}
	if err := m.beforeRead(ctx); err != nil {
		return nil, 0, fmt.Errorf("list %s: %w", prefix, err)
	}
	return unfailing{m}.List(ctx, prefix)
}

// Together reads keys and prefixes at one moment.
func (m *Memory) Together(ctx context.Context, what ...string) ([]store.Entry, error) {
	if err := store.ValidateTogether(what); err != nil {
		return nil, err
	}
	if err := m.beforeRead(ctx); err != nil {
		return nil, fmt.Errorf("read together: %w", err)
	}
	return unfailing{m}.Together(ctx, what...)
}

// unfailing reads without injected faults: the reads that belong to a commit.
type unfailing struct{ m *Memory }

func (u unfailing) List(ctx context.Context, prefix string) ([]store.Entry, uint64, error) {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	return locked(u).List(ctx, prefix)
}

func (u unfailing) Together(ctx context.Context, what ...string) ([]store.Entry, error) {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	return locked(u).Together(ctx, what...)
}

// locked is unfailing for a caller that holds the mutex.
type locked struct{ m *Memory }

func (l locked) List(_ context.Context, prefix string) ([]store.Entry, uint64, error) {
	entries := []store.Entry{}
	for _, key := range l.m.belowLocked(prefix) {
		entries = append(entries, l.m.items[key].entry(key))
	}
	return entries, l.m.listIndexLocked(prefix), nil
}

func (l locked) Together(_ context.Context, what ...string) ([]store.Entry, error) {
	var keys []string
	for _, w := range what {
		if prefix, is := strings.CutSuffix(w, store.Below); is {
			keys = append(keys, l.m.belowLocked(prefix)...)
		} else if _, ok := l.m.items[w]; ok {
			keys = append(keys, w)
		}
	}
	entries := make([]store.Entry, 0, len(keys))
	for _, key := range keys {
		entries = append(entries, l.m.items[key].entry(key))
	}
	return store.SortTogether(entries), nil
}

// belowLocked returns the sorted keys below prefix. Do not change the result.
func (m *Memory) belowLocked(prefix string) []string {
	from, _ := slices.BinarySearch(m.keys, prefix)
	below := m.keys[from:]
	for n, key := range below {
		if !strings.HasPrefix(key, prefix) {
			return below[:n]
		}
	}
	return below
}

// storeLocked and removeLocked update items and keys together.
func (m *Memory) storeLocked(key string, value item) {
	if at, known := slices.BinarySearch(m.keys, key); !known {
		m.keys = slices.Insert(m.keys, at, key)
	}
	m.items[key] = value
}

func (m *Memory) removeLocked(key string) {
	if at, known := slices.BinarySearch(m.keys, key); known {
		m.keys = slices.Delete(m.keys, at, at+1)
	}
	delete(m.items, key)
}

func (i item) entry(key string) store.Entry {
	return store.Entry{Key: key, Value: slices.Clip(i.value), Index: i.index, Session: i.session}
}

// listIndexLocked is the latest change below prefix, or of all keys when there never was one.
func (m *Memory) listIndexLocked(prefix string) uint64 {
	var index uint64
	for _, key := range m.belowLocked(prefix) {
		index = max(index, m.items[key].index)
	}
	for key, grave := range m.graves {
		if strings.HasPrefix(key, prefix) {
			index = max(index, grave)
		}
	}
	if index == 0 {
		return m.written
	}
	return index
}

// Watch blocks until the index below prefix differs from index.
func (m *Memory) Watch(ctx context.Context, prefix string, index uint64) (uint64, error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return index, err
	}
	resync := make(chan struct{})
	stop := m.cfg.Clock.AfterFunc(m.cfg.Resync, func() { close(resync) })
	defer stop()
	for {
		if err := m.beforeRead(ctx); err != nil {
			return index, watchError(ctx, prefix, err)
		}
		m.mu.Lock()
		now, waits := m.listIndexLocked(prefix), &waiter{prefix, make(chan struct{})}
		if now == index {
			m.waiters[waits] = struct{}{}
		}
		m.mu.Unlock()
		if now != index {
			return now, nil
		}
		select {
		case <-waits.woken:
			continue
		case <-resync:
		case <-ctx.Done():
		}
		m.mu.Lock()
		delete(m.waiters, waits)
		m.mu.Unlock()
		if ctx.Err() != nil {
			return index, ctx.Err()
		}
		return now, nil
	}
}

func watchError(ctx context.Context, prefix string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("watch %s: %w", prefix, err)
}

// wakeLocked wakes the waiters for a change of one of these keys; without keys, all of them.
func (m *Memory) wakeLocked(keys ...string) {
	for w := range m.waiters {
		if len(keys) == 0 || slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, w.prefix) }) {
			close(w.woken)
			delete(m.waiters, w)
		}
	}
}

// Snapshot has the whole state, for Restore.
type Snapshot struct {
	index, written uint64
	items          map[string]item
	graves         map[string]uint64
}

// Snapshot copies the state.
func (m *Memory) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Snapshot{index: m.index, written: m.written, items: maps.Clone(m.items), graves: maps.Clone(m.graves)}
}

// Restore goes back to a snapshot, as an operator restores a backup: indices go back with it and
// every session ends.
func (m *Memory) Restore(s Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index, m.written = s.index, s.written
	m.items, m.graves = maps.Clone(s.items), maps.Clone(s.graves)
	m.keys = slices.Sorted(maps.Keys(m.items))
	for key, found := range m.items {
		found.session = ""
		m.items[key] = found
	}
	for _, open := range m.sessions {
		open.stop()
	}
	m.sessions = make(map[string]*session)
	m.wakeLocked()
}

// Wipe removes a key that Commit cannot remove, as a direct edit of the store would. It returns the
// store as a new process sees it: this process's highest Term is forgotten.
func (m *Memory) Wipe(key string) store.Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeLocked(key)
	m.index++
	m.written, m.graves[key], m.maxTerm = m.index, m.index, 0
	m.wakeLocked()
	return m
}

// SetTerm writes the Term record, as a direct edit of the store would.
func (m *Memory) SetTerm(term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	edit := m.beginLocked()
	edit.put(store.TermKey, fmt.Appendf(nil, `{"term":%d}`, term), "")
	edit.finishLocked()
}

// Dump returns all values by key, for assertions and failure messages.
func (m *Memory) Dump() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := make(map[string]string, len(m.items))
	for key, found := range m.items {
		values[key] = string(found.value)
	}
	return values
}
