// Package meter counts the events of a rendezvous, for Prometheus. No label names a
// cluster, an identity or an address: the counts are for the operator of the box.
package meter

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Meter is one process's counters.
type Meter struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	sent     prometheus.Counter
	issued   prometheus.Counter
	relayed  prometheus.Counter
	dropped  *prometheus.CounterVec
}

// New makes a meter.
func New() *Meter {
	m := &Meter{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cadre_rendezvous_requests_total", Help: "Requests of members by kind."}, []string{"kind"}),
		refused:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cadre_rendezvous_refusals_total", Help: "Refused requests by code."}, []string{"code"}),
		sent:     prometheus.NewCounter(prometheus.CounterOpts{Name: "cadre_rendezvous_messages_total", Help: "Messages taken for a mailbox."}),
		issued:   prometheus.NewCounter(prometheus.CounterOpts{Name: "cadre_rendezvous_credentials_total", Help: "Relay credentials minted."}),
		relayed:  prometheus.NewCounter(prometheus.CounterOpts{Name: "cadre_rendezvous_relayed_bytes_total", Help: "Bytes relayed, both ways."}),
		dropped:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cadre_rendezvous_relay_dropped_total", Help: "Datagrams not relayed, by reason."}, []string{"reason"}),
	}
	m.registry.MustRegister(
		m.requests, m.refused, m.sent, m.issued, m.relayed, m.dropped,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Gauge exports the values of read.
func (m *Meter) Gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cadre_rendezvous_" + name, Help: help}, read))
}

// Handler serves the counters.
func (m *Meter) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Request counts a member's request. kind is one of few constants.
func (m *Meter) Request(kind string) { m.requests.WithLabelValues(kind).Inc() }

// Refused counts a refusal.
func (m *Meter) Refused(code string) { m.refused.WithLabelValues(code).Inc() }

// Sent counts a message that was taken.
func (m *Meter) Sent() { m.sent.Inc() }

// Issued counts a credential.
func (m *Meter) Issued() { m.issued.Inc() }

// Relayed counts bytes.
func (m *Meter) Relayed(bytes int) { m.relayed.Add(float64(bytes)) }

// Dropped counts a datagram that was not relayed.
func (m *Meter) Dropped(reason string) { m.dropped.WithLabelValues(reason).Inc() }
