package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"cadre.dev/coordinator/internal/view"
)

const (
	// pace bounds the comparisons of all records: changes within a second are one batch.
	pace = time.Second
	// sendTime bounds one upload with its retries. Spans that cannot be sent in this time are dropped.
	sendTime = 15 * time.Second
	// maxBatch bounds the spans of one upload.
	maxBatch = 1000
)

// Config of an Exporter. All fields are required.
type Config struct {
	// Endpoint is a URL that CheckEndpoint accepts.
	Endpoint               string
	Cluster, Slot, Version string
	Views                  *view.Watcher
	Log                    *slog.Logger
}

// CheckEndpoint accepts "" and the URL of an OTLP/HTTP collector. Spans name slots, groups and
// operators, so plain HTTP is accepted for a collector on loopback only.
func CheckEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return fmt.Errorf("traces endpoint: %w", err)
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("traces endpoint %q: want a URL such as https://collector.example:4318/v1/traces", endpoint)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("traces endpoint %q: the compose file is readable, so a URL with a password or a query is refused", u.Redacted())
	case u.Scheme == "http" && u.Hostname() != "127.0.0.1" && u.Hostname() != "::1":
		return fmt.Errorf("traces endpoint %q: plain http is for a collector at 127.0.0.1; use https", endpoint)
	}
	return nil
}

// Exporter sends the spans of the leader. Create it with New, run it once.
type Exporter struct {
	cfg    Config
	client otlptrace.Client
	ended  ended
}

// New makes an Exporter. It opens no connection before the first span.
func New(cfg Config) *Exporter {
	return &Exporter{cfg: cfg, client: otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(cfg.Endpoint))}
}

// Run sends spans until ctx ends. A collector that fails costs spans and a warning, and nothing
// else.
func (e *Exporter) Run(ctx context.Context) error {
	if err := e.client.Start(ctx); err != nil {
		return fmt.Errorf("start the exporter of traces: %w", err)
	}
	defer func() { _ = e.client.Stop(context.WithoutCancel(ctx)) }()
	changes := e.cfg.Views.Subscribe()
	defer changes.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changes.C():
		}
		v, _ := changes.Take()
		if v == nil {
			continue
		}
		if spans := e.ended.take(v); v.Leader == e.cfg.Slot {
			if err := e.send(ctx, spans); err != nil && ctx.Err() == nil {
				e.cfg.Log.Warn("spans were dropped", "spans", len(spans), "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pace):
		}
	}
}

func (e *Exporter) send(ctx context.Context, spans []Span) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	var errs []error
	for len(spans) > 0 {
		n := min(len(spans), maxBatch)
		if err := e.client.UploadTraces(ctx, e.batch(spans[:n])); err != nil {
			errs = append(errs, err)
		}
		spans = spans[n:]
	}
	return errors.Join(errs...)
}

// batch has the form of OTLP 1: one resource, the control plane of this cluster.
func (e *Exporter) batch(spans []Span) []*tracepb.ResourceSpans {
	out := make([]*tracepb.Span, len(spans))
	for i, s := range spans {
		out[i] = s.wire()
	}
	return []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: keyValues([]Attribute{
			{"service.name", "cadre-coordinator"}, {"service.version", e.cfg.Version}, {"service.instance.id", e.cfg.Slot}, {"cadre.cluster", e.cfg.Cluster},
		})},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "cadre.dev/coordinator"}, Spans: out}},
	}}
}

func (s Span) wire() *tracepb.Span {
	out := &tracepb.Span{
		TraceId: s.Trace[:], SpanId: s.ID[:], Name: s.Name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanos(s.Start), EndTimeUnixNano: nanos(s.End), Attributes: keyValues(s.Attributes),
	}
	if s.Parent != ([8]byte{}) {
		out.ParentSpanId = s.Parent[:]
	}
	if s.Failed != "" {
		out.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: s.Failed}
	}
	return out
}

// nanos is 0 for times outside of the range of OTLP, such as the zero time.
func nanos(t time.Time) uint64 {
	if t.Unix() <= 0 {
		return 0
	}
	return uint64(t.UnixNano())
}

func keyValues(of []Attribute) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, len(of))
	for i, a := range of {
		out[i] = &commonpb.KeyValue{Key: a.Key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: a.Value}}}
	}
	return out
}
