package trace

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func update() operation.Operation {
	return operation.Operation{
		ID: "op-1", Group: "postgres", Slot: "postgres-1", Rollout: "ro-1", Kind: operation.Update, Phase: operation.Done,
		Times: operation.Times{Created: start, Ended: after(60)},
		Entered: operation.PhaseTimes{
			operation.Draining: start, operation.Drained: after(5), operation.Acting: after(6), operation.Booting: after(8),
			operation.Joining: after(40), operation.Settling: after(50), operation.Done: after(60),
		},
	}
}

func rollout() operation.Rollout {
	return operation.Rollout{ID: "ro-1", Group: "postgres", To: "r2", State: operation.Complete, StartedAt: start, EndedAt: after(61), By: "alice"}
}

// TestAnOperationIsASpanOfItsRollout with one span for each phase, without a gap.
func TestAnOperationIsASpanOfItsRollout(t *testing.T) {
	root, ok := OfRollout(rollout())
	spans := OfOperation(update())
	if !ok || len(spans) != 7 {
		t.Fatalf("%t, %d spans", ok, len(spans))
	}
	if spans[0].Trace != root.Trace || spans[0].Parent != root.ID || root.Parent != ([8]byte{}) {
		t.Error("the operation is in another trace than its rollout")
	}
	at := start
	for _, s := range spans[1:] {
		if s.Parent != spans[0].ID || !s.Start.Equal(at) || s.End.Before(s.Start) {
			t.Errorf("%s: %s to %s, want from %s", s.Name, s.Start, s.End, at)
		}
		at = s.End
	}
	if !at.Equal(after(60)) {
		t.Errorf("the last phase ends at %s", at)
	}
}

// TestAnOpenRecordHasNoSpan yet, and an Operation without a rollout has a trace of its own.
func TestAnOpenRecordHasNoSpan(t *testing.T) {
	open := update()
	open.Phase = operation.Joining
	running := rollout()
	running.EndedAt = time.Time{}
	if _, ok := OfRollout(running); ok || OfOperation(open) != nil {
		t.Error("an open record has a span")
	}
	alone := update()
	alone.Rollout = ""
	if s := OfOperation(alone)[0]; s.Parent != ([8]byte{}) || s.Trace != traceID("op-1") {
		t.Errorf("%+v", s)
	}
}

// TestAFailureIsTheStatusOfItsSpan, and a repeated phase ends no span before its start.
func TestAFailureIsTheStatusOfItsSpan(t *testing.T) {
	op := update()
	op.Phase, op.Reason = operation.Failed, "not healthy in time"
	op.Entered[operation.Booting] = after(45) // again, after the first join
	delete(op.Entered, operation.Settling)
	spans := OfOperation(op)
	if spans[0].Failed != "not healthy in time" {
		t.Errorf("%+v", spans[0])
	}
	for _, s := range spans {
		if s.End.Before(s.Start) {
			t.Errorf("%s ends before its start", s.Name)
		}
	}
}

func TestARecordIsSentOnceAndOldOnesNever(t *testing.T) {
	var e ended
	old := update()
	old.ID = "op-0"
	v := &view.View{Operations: map[string]view.Rec[operation.Operation]{"op-0": {Value: old}}}
	if got := e.take(v); got != nil {
		t.Errorf("%d spans of records from before", len(got))
	}
	v.Operations["op-1"] = view.Rec[operation.Operation]{Value: update()}
	v.Rollouts = map[string]view.Rec[operation.Rollout]{"ro-1": {Value: rollout()}}
	if got := e.take(v); len(got) != 8 {
		t.Errorf("%d spans, want 8", len(got))
	}
	if got := e.take(v); got != nil {
		t.Errorf("%d spans again", len(got))
	}
}

func TestAnEndpointIsHTTPSOrOnLoopback(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                                       "",
		"https://otel.example:4318/v1/traces":    "",
		"http://127.0.0.1:4318/v1/traces":        "",
		"http://[::1]:4318/v1/traces":            "",
		"http://otel.example:4318/v1/traces":     "use https",
		"otel.example:4318":                      "want a URL",
		"https://":                               "want a URL",
		"https://user:secret@otel.example/":      "password or a query",
		"https://otel.example/v1/traces?key=abc": "password or a query",
	} {
		err := CheckEndpoint(endpoint)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", endpoint, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v shows the password", err)
		}
	}
}

// TestSpansAreSentByOTLP to a collector, which decodes them with OpenTelemetry's own types.
func TestTheLeaderSendsSpansByOTLP(t *testing.T) {
	got := make(chan *coltracepb.ExportTraceServiceRequest, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var in coltracepb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &in) != nil {
			t.Error("the request is not OTLP")
		}
		got <- &in
	}))
	defer collector.Close()
	e := New(Config{Endpoint: collector.URL + "/v1/traces", Cluster: "demo", Slot: "coordinator-0", Version: "1"})
	if err := e.client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	root, _ := OfRollout(rollout())
	if err := e.send(t.Context(), append(OfOperation(update()), root)); err != nil {
		t.Fatal(err)
	}
	spans := (<-got).GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
	if len(spans) != 8 || spans[0].GetName() != "UPDATE postgres-1" || spans[7].GetName() != "rollout postgres" {
		t.Fatalf("%v", spans)
	}
	if string(spans[0].GetParentSpanId()) != string(spans[7].GetSpanId()) || string(spans[0].GetTraceId()) != string(spans[7].GetTraceId()) {
		t.Error("the operation is no child of its rollout")
	}
	if spans[0].GetEndTimeUnixNano()-spans[0].GetStartTimeUnixNano() != uint64(time.Minute) {
		t.Errorf("%v", spans[0])
	}
}

// TestAFailingCollectorIsAnError and holds the exporter for a bounded time only.
func TestAFailingCollectorIsAnError(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer collector.Close()
	e := New(Config{Endpoint: collector.URL})
	if err := e.client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.send(t.Context(), OfOperation(update())); err == nil {
		t.Error("no error")
	}
}
