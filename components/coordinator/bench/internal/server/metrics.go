package server

import "sync"

// metrics counts what admission tells of.
type metrics struct {
	mu     sync.Mutex
	counts Counts // guarded by mu
}

// Admitted implements admission.Metrics.
func (m *metrics) Admitted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Admitted++
}

// Renewed implements admission.Metrics.
func (m *metrics) Renewed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Renewed++
}

// Refused implements admission.Metrics.
func (m *metrics) Refused(code string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts.Refused == nil {
		m.counts.Refused = map[string]int{}
	}
	m.counts.Refused[code]++
}

func (m *metrics) addTo(out *Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out.Admitted += m.counts.Admitted
	out.Renewed += m.counts.Renewed
	for code, n := range m.counts.Refused {
		out.Refused[code] += n
	}
}
