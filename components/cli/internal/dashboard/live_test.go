package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client/clienttest"
)

// events reads a live stream.
type events struct {
	t    *testing.T
	body *bufio.Scanner
	end  context.CancelFunc
}

func (b *bench) stream(at string) *events {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 60*time.Second)
	b.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"live?at="+at, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("live: %s", resp.Status)
	}
	s := bufio.NewScanner(resp.Body)
	s.Buffer(nil, 8<<20)
	return &events{t: b.t, body: s, end: cancel}
}

// until reads until an event has the text, and returns its data.
func (e *events) until(event, text string) string {
	e.t.Helper()
	name := ""
	for e.body.Scan() {
		line := e.body.Text()
		if after, ok := strings.CutPrefix(line, "event: "); ok {
			name = after
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && name == event {
			var decoded map[string]string
			if err := json.Unmarshal([]byte(data), &decoded); err != nil {
				e.t.Fatal(err)
			}
			for _, v := range decoded {
				if strings.Contains(v, text) {
					return data
				}
			}
			if text == "" && len(decoded) == 0 {
				return data
			}
		}
	}
	e.t.Fatalf("the stream ended before %s %q: %v", event, text, e.body.Err())
	return ""
}

// Two tabs share one watch, and both see a change.
func TestTabsShareAWatch(t *testing.T) {
	b := entered(t, world(t))
	first, second := b.stream("groups/postgres"), b.stream("groups/postgres")
	first.until("fragment", "waits for postgres-1")
	second.until("fragment", "waits for postgres-1")
	b.server.hub.mu.Lock()
	f := b.server.hub.feeds["group/postgres"]
	users := f.users
	b.server.hub.mu.Unlock()
	if users != 2 {
		t.Errorf("%d users of the feed", users)
	}
	b.AwaitWatcher(t)
	b.Set("postgres", func(g *clienttest.Group) { g.Status.Message = "postgres-1 is back" })
	first.until("fragment", "postgres-1 is back")
	second.until("fragment", "postgres-1 is back")
}

// A stream says since when no coordinator answers, keeps the last picture, and goes on afterwards.
func TestConnectionLostAndBack(t *testing.T) {
	b := entered(t, world(t))
	e := b.stream("groups/postgres")
	e.until("fragment", "waits for postgres-1")
	b.Fail("WatchGroup", status.Error(codes.Unavailable, "the coordinator is going away"))
	b.Set("postgres", func(*clienttest.Group) {})
	e.until("connection", "the coordinator is going away")
	if code, page := b.get("groups/postgres"); code != http.StatusOK || !strings.Contains(page, "connection lost since 12:00:00") || !strings.Contains(page, "waits for postgres-1") {
		t.Errorf("%d %s", code, page)
	}
	b.Fail("WatchGroup", nil)
	e.until("connection", "")
	b.Set("postgres", func(g *clienttest.Group) { g.Status.Message = "postgres-1 is back" })
	e.until("fragment", "postgres-1 is back")
}

// The end of Serve ends open streams and every source.
func TestEndsCleanly(t *testing.T) {
	b := entered(t, world(t))
	e := b.stream("groups/postgres")
	e.until("fragment", "waits for postgres-1")
	b.end()
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
	for e.body.Scan() {
		continue // the test waits for the end of the stream
	}
	b.ended <- nil // for the cleanup of the bench
}

// The number of streams is bounded.
func TestStreamsAreBounded(t *testing.T) {
	b := entered(t, world(t))
	for range maxStreams {
		b.stream("operations").until("connection", "")
	}
	if code, _ := b.get("live?at=operations"); code != http.StatusServiceUnavailable {
		t.Errorf("one more stream: %d", code)
	}
	if code, _ := b.get("live?at=nothing"); code != http.StatusNotFound {
		t.Errorf("a stream of no page: %d", code)
	}
}

// A dashboard that no coordinator has answered yet has pages, and fills them when one answers.
func TestNoCoordinatorAtFirst(t *testing.T) {
	s := world(t)
	s.Fail("GetCluster", status.Error(codes.Unavailable, "no coordinator is there yet"))
	b := entered(t, s)
	if code, page := b.get("operations"); code != http.StatusOK || !strings.Contains(page, "postgres-1") {
		t.Errorf("a page that needs no other answer: %d %s", code, page)
	}
	if code, page := b.get(""); code != http.StatusOK || !strings.Contains(page, "No coordinator has answered yet") || !strings.Contains(page, "connection lost since 12:00:00") {
		t.Errorf("%d %s", code, page)
	}
	e := b.stream("")
	e.until("connection", "no coordinator is there yet")
	b.Fail("GetCluster", nil)
	e.until("fragment", "demo-coordinator-2")
}
