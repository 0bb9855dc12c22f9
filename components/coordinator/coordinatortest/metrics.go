package coordinatortest

import "sync"

// Counts are totals since the start.
type Counts struct {
	Admitted, Renewed int
	// Refused by code.
	Refused map[string]int
	// Overloaded first contacts were closed at once.
	Overloaded uint64
}

// AddTo adds this coordinator's counts.
func (c *Coordinator) AddTo(out *Counts) {
	c.metrics.addTo(out)
	out.Overloaded += c.node.Stats().Overloaded
}

// metrics counts the events of admission.
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
	if out.Refused == nil {
		out.Refused = map[string]int{}
	}
	for code, n := range m.counts.Refused {
		out.Refused[code] += n
	}
}
