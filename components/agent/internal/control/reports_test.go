package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/agent/internal/latestvalue"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/raced/synctest"
)

// listener takes reports as a coordinator does.
type listener struct {
	controlv1.CoordinatorServiceClient
	beats bool // it takes heartbeats

	mu       sync.Mutex
	failing  bool              // guarded by mu
	holds    *controlv1.Report // guarded by mu; the last whole report
	sequence uint64            // guarded by mu
	healthy  time.Duration     // guarded by mu
	whole    int               // guarded by mu; whole reports
	short    int               // guarded by mu; heartbeats that were taken
	at       []time.Time       // guarded by mu; of all of them
}

func (l *listener) Report(_ context.Context, r *controlv1.ReportRequest, _ ...grpc.CallOption) (*controlv1.ReportResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := &controlv1.ReportResponse{Heartbeats: l.beats}
	beat := r.GetHeartbeat()
	switch {
	case l.failing:
		return nil, errors.New("it fails")
	case beat == nil && r.GetReport().GetSequence() <= l.sequence:
		return nil, errors.New("an old report")
	case beat == nil:
		l.holds, l.sequence, l.healthy = r.GetReport(), r.GetReport().GetSequence(), r.GetReport().GetHealthyFor().AsDuration()
		l.whole++
	case !l.beats:
		return nil, errors.New("report: missing")
	case l.holds.GetSequence() != beat.GetReport():
		out.ReportWanted = true
		return out, nil
	default:
		if size := proto.Size(r); size > 20 {
			return nil, errors.New("a heartbeat of many bytes")
		}
		l.sequence, l.healthy = beat.GetSequence(), time.Duration(beat.GetHealthyMs())*time.Millisecond
		l.short++
	}
	l.at = append(l.at, time.Now())
	return out, nil
}

func (l *listener) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = nil
}

func (l *listener) fail(failing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = failing
}

// heard returns the messages since the last heard.
func (l *listener) heard() (whole, short int, holds *controlv1.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	whole, short, holds = l.whole, l.short, l.holds
	l.whole, l.short = 0, 0
	return whole, short, holds
}

// member is the content of an agent's reports in these tests.
type member struct {
	mu      sync.Mutex
	report  *controlv1.Report // guarded by mu
	since   time.Time
	changed latestvalue.Value[struct{}]
}

func (m *member) now() *controlv1.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := proto.CloneOf(m.report)
	out.HealthyFor = durationpb.New(time.Since(m.since))
	return out
}

func (m *member) change(f func(*controlv1.Report)) {
	m.mu.Lock()
	f(m.report)
	m.mu.Unlock()
	m.changed.Set(struct{}{})
}

func reporting(t *testing.T, beats bool) (*member, *listener) {
	t.Helper()
	m := &member{report: &controlv1.Report{MemberKnown: true, Member: &controlv1.MemberView{Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true}}, since: time.Now().Add(-time.Hour)}
	h := newHub(t, t.TempDir())
	h.cfg.Report, h.cfg.ReportChanged = m.now, &m.changed
	l := &listener{beats: beats}
	conn, err := grpc.NewClient("passthrough:nobody", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	s := &session{hub: h, peer: from, conn: conn, client: l, fetch: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = h.runReports(ctx) })
	running.Go(func() { s.reportLoop(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); _ = conn.Close() })
	synctest.Wait()
	return m, l
}

// TestEachChangeMakesAReport: in between, heartbeats confirm the report, at least every 5 s.
func TestEachChangeMakesAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := reporting(t, true)
		if whole, short, _ := l.heard(); whole != 1 || short != 0 {
			t.Fatalf("at first %d reports, %d heartbeats", whole, short)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		whole, short, _ := l.heard()
		if whole != 0 || short < int(10*time.Minute/heartbeat) {
			t.Errorf("without a change %d reports, %d heartbeats", whole, short)
		}
		for i := 1; i < len(l.at); i++ {
			if gap := l.at[i].Sub(l.at[i-1]); gap > heartbeat {
				t.Errorf("silent for %v", gap)
			}
		}
		if want := time.Since(m.since); l.healthy < want-heartbeat || l.healthy > want {
			t.Errorf("healthy for %v, want %v", l.healthy, want)
		}
		m.change(func(r *controlv1.Report) { r.Member.Ready = false })
		time.Sleep(debounce)
		synctest.Wait()
		if whole, _, holds := l.heard(); whole != 1 || holds.GetMember().GetReady() {
			t.Errorf("after a change: %d reports, the last is %v", whole, holds)
		}
	})
}

// TestALagThatMovesWaitsForTheHeartbeat: it decides nothing.
func TestALagThatMovesWaitsForTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := reporting(t, true)
		l.heard()
		for lag := range int64(300) {
			m.change(func(r *controlv1.Report) { r.Member.LagBytes = &lag })
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		whole, short, holds := l.heard()
		if most := int(30*time.Second/(heartbeat*3/4)) + 1; whole == 0 || whole > most || short != 0 || holds.GetMember().GetLagBytes() == 0 {
			t.Errorf("%d reports, at most %d are due; %d heartbeats; %v", whole, most, short, holds)
		}
	})
}

// TestATextThatMovesWaitsForTheHeartbeat: an error may name another port at each try. Other changes
// in the same report do not wait.
func TestATextThatMovesWaitsForTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := reporting(t, true)
		m.change(func(r *controlv1.Report) { r.Checks = []*controlv1.CheckResult{{Name: "ready"}} })
		time.Sleep(debounce)
		synctest.Wait()
		l.heard()
		for port := range 300 {
			text := fmt.Sprintf("read tcp 127.0.0.1:%d: connection reset by peer", port)
			m.change(func(r *controlv1.Report) { r.Checks[0].Message, r.Member.Message = text, text })
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		whole, short, holds := l.heard()
		if most := int(30*time.Second/(heartbeat*3/4)) + 1; whole == 0 || whole > most || short != 0 || holds.GetMember().GetMessage() == "" || holds.GetChecks()[0].GetMessage() == "" {
			t.Errorf("%d reports, at most %d are due; %d heartbeats; %v", whole, most, short, holds)
		}
		m.change(func(r *controlv1.Report) { r.Checks[0].Health = controlv1.Health_HEALTH_UNHEALTHY })
		time.Sleep(debounce)
		synctest.Wait()
		if whole, _, holds := l.heard(); whole != 1 || holds.GetChecks()[0].GetMessage() == "" {
			t.Errorf("after a verdict: %d reports, the last is %v", whole, holds)
		}
	})
}

// TestACoordinatorThatLacksTheReportGetsIt: the coordinator restarted, failed, or is of an earlier
// version without heartbeats.
func TestACoordinatorThatLacksTheReportGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := reporting(t, true)
		l.heard()
		l.forget()
		time.Sleep(heartbeat)
		synctest.Wait()
		if whole, _, holds := l.heard(); whole != 1 || holds == nil {
			t.Errorf("to a restarted coordinator: %d reports", whole)
		}
		l.fail(true)
		time.Sleep(heartbeat)
		l.fail(false)
		time.Sleep(reportAgain)
		synctest.Wait()
		if whole, _, _ := l.heard(); whole != 1 {
			t.Errorf("to a failed coordinator: %d reports", whole)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, l := reporting(t, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if whole, short, _ := l.heard(); whole < int(time.Minute/heartbeat) || short != 0 {
			t.Errorf("to one of an earlier version: %d reports, %d heartbeats", whole, short)
		}
	})
}
