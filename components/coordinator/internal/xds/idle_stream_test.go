package xds_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/xds"
)

// quiet sends one message on each stream, and then nothing until the stream ends.
type quiet struct{}

func (quiet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	message := text(4, typeCluster)
	w.Header().Set("Content-Type", "application/grpc")
	_, _ = w.Write(append([]byte{0, 0, 0, 0, byte(len(message))}, message...))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// TestAnIdleStreamStaysOpen: in a steady state Consul may send nothing for hours. The end of a proxy
// causes no warning.
func TestAnIdleStreamStaysOpen(t *testing.T) {
	const unread = 200 * time.Millisecond
	w, m := before(t, xds.Limits{Unread: unread}, quiet{})
	e := m.open(m.own())
	if _, err := e.receive(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.ended() }()
	select {
	case err := <-ended:
		t.Fatalf("it ended early: %v", err)
	case <-time.After(5 * unread):
	}
	_ = m.conn.Close()
	<-ended
	w.stop()
	if said := w.logged.String(); strings.Contains(said, "level=WARN") {
		t.Errorf("the log warns of a proxy's end:\n%s", said)
	}
}

// full rejects every stream.
type full struct{ with codes.Code }

func (f full) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", "8")
	if f.with == codes.Unavailable {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Grpc-Message", "this server has too many xDS streams open, please try another")
}

// TestAMemberForAnotherCoordinatorIsDisconnected: Consul's servers balance the streams among them, so a full server
// rejects more for long, and a missing one may be away for long. The connection ends, so that the
// next one goes to another coordinator: on an open connection a proxy repeats the same request.
func TestAMemberForAnotherCoordinatorIsDisconnected(t *testing.T) {
	for name, code := range map[string]codes.Code{"full": codes.ResourceExhausted, "away": codes.Unavailable} {
		t.Run(name, func(t *testing.T) {
			w, m := before(t, xds.Limits{}, full{code})
			if err := m.open(m.own()).ended(); status.Code(err) != code {
				t.Errorf("it receives %v, want %v", err, code)
			}
			select {
			case <-m.over:
			case <-time.After(10 * time.Second):
				t.Error("its connection stands")
			}
			w.stop()
		})
	}
}
