package durable

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// Memory is a folder that is in memory and outlives the Disks that were opened on it, as a
// CVM's disk outlives its Boots. The zero Memory is empty. Safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	files map[string][]byte // guarded by mu; by name
}

// Open returns the folder for one process. Once closed reports that the process is gone, its writes
// have no effect.
func (m *Memory) Open(closed func() bool, log *slog.Logger) *Disk {
	return &Disk{
		log: log, behind: map[string]behind{},
		write: func(name string, data []byte) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if closed() {
				return fmt.Errorf("write %s: the process is gone", name)
			}
			if m.files == nil {
				m.files = map[string][]byte{}
			}
			m.files[name] = slices.Clone(data)
			return nil
		},
		read: func(name string, limit int64) ([]byte, bool, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			data, exists := m.files[name]
			if int64(len(data)) > limit {
				return nil, false, fmt.Errorf("read %s: larger than %d bytes", name, limit)
			}
			return data, exists, nil
		},
	}
}
