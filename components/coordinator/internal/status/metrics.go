package status

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Metrics of one coordinator. Safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	leader    prometheus.Gauge
	term      prometheus.Gauge
	calls     *prometheus.CounterVec
	admitted  prometheus.Counter
	renewed   prometheus.Counter
	refused   *prometheus.CounterVec
	panics    *prometheus.CounterVec
	passTimes prometheus.Histogram
	leading   atomic.Bool
	groups    *groups
}

// NewMetrics registers everything on its own registry.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		groups:    newGroups(),
		leader:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "cadre_leader", Help: "1 while this coordinator holds the Lease."}),
		term:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "cadre_term", Help: "Term of the Lease held last."}),
		calls:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cadre_platform_calls_total", Help: "Platform calls with an effect by kind and outcome."}, []string{"kind", "outcome"}),
		admitted:  prometheus.NewCounter(prometheus.CounterOpts{Name: "cadre_admissions_total", Help: "Admissions of Boots, including repeated attestations."}),
		renewed:   prometheus.NewCounter(prometheus.CounterOpts{Name: "cadre_renewals_total", Help: "Credentials renewed without new evidence."}),
		refused:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cadre_refusals_total", Help: "Refused admissions by code."}, []string{"code"}),
		panics:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cadre_panics_total", Help: "Errors in the coordinator's own code that were contained, by the part that met them."}, []string{"part"}),
		passTimes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cadre_reconcile_pass_seconds", Help: "Time of one pass.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 12)}),
	}
	m.groups.leads = m.leading.Load
	m.registry.MustRegister(m.leader, m.term, m.calls, m.admitted, m.renewed, m.refused, m.panics, m.passTimes, m.groups)
	return m
}

// Gauge registers a gauge with a function that reads its value.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Add registers a collector that reads its metrics on demand.
func (m *Metrics) Add(c prometheus.Collector) { m.registry.MustRegister(c) }

// Gather reads all metrics.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) { return m.registry.Gather() }

// Leads records the Lease; term keeps its value when leads is false.
func (m *Metrics) Leads(leads bool, term uint64) {
	m.leading.Store(leads)
	if leads {
		m.leader.Set(1)
		m.term.Set(float64(term))
		return
	}
	m.leader.Set(0)
}

// Pass counts one pass over a group.
func (m *Metrics) Pass(group, result string, seconds float64) {
	m.groups.note(group)
	m.groups.passes.WithLabelValues(group, result).Inc()
	m.passTimes.Observe(seconds)
}

// Call counts one platform call with an effect.
func (m *Metrics) Call(kind, outcome string) { m.calls.WithLabelValues(kind, outcome).Inc() }

// Panicked counts a panic that was contained.
func (m *Metrics) Panicked(part string) { m.panics.WithLabelValues(part).Inc() }

// Admitted counts an admission.
func (m *Metrics) Admitted() { m.admitted.Inc() }

// Renewed counts a renewal of credentials.
func (m *Metrics) Renewed() { m.renewed.Inc() }

// Refused counts a refusal.
func (m *Metrics) Refused(code string) { m.refused.WithLabelValues(code).Inc() }
