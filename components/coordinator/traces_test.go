package coordinator_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is an OTLP/HTTP collector that keeps all spans.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span // guarded by mu
}

func (h *harness) collector() *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var in coltracepb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &in) != nil {
			h.t.Error("the collector got something else than spans")
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range in.GetResourceSpans() {
			for _, scope := range of.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
	}))
	h.t.Cleanup(c.Close)
	return c
}

// rollout waits for the trace of a rollout of the group web: the rollout, its update, and the phases of the update.
func (c *collector) rollout(h *harness) {
	h.Eventually("the trace of a rollout", func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, root := range c.spans {
			if root.GetName() != "rollout web" {
				continue
			}
			for _, step := range c.children(root) {
				if step.GetName() == "UPDATE web-0" && len(c.children(step)) >= 5 {
					return nil
				}
			}
		}
		return fmt.Errorf("%d spans: %v", len(c.spans), c.spans)
	})
}

// children are the spans below parent; the caller holds mu.
func (c *collector) children(parent *tracepb.Span) (out []*tracepb.Span) {
	for _, s := range c.spans {
		if string(s.GetParentSpanId()) == string(parent.GetSpanId()) && string(s.GetTraceId()) == string(parent.GetTraceId()) {
			out = append(out, s)
		}
	}
	return out
}
