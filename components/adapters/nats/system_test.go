package nats

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// said is the answer of one server to the question of a round.
type said struct {
	server string
	data   jsz
}

func (s said) text() []byte {
	text, _ := json.Marshal(map[string]any{"server": map[string]string{"name": s.server}, "data": s.data})
	return text
}

// script is a NATS server that gives each request the same answers.
type script []said

// adapterOf returns the adapter of a server with that name, which plays the script.
func adapterOf(t *testing.T, name string, s script) *Adapter {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.play(conn, name)
		}
	}()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{
		Slot: "nats-0", Monitor: "http://127.0.0.1:1", Server: "nats://" + l.Addr().String(),
		User: "sys", PasswordFile: password,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// play speaks the part of the protocol that one request needs. Its errors show as missing answers.
func (s script) play(conn net.Conn, name string) {
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "INFO {\"server_name\":%q,\"max_payload\":1048576,\"headers\":true}\r\n", name)
	sid := ""
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch words := strings.Fields(lines.Text()); {
		case len(words) == 0:
		case words[0] == "PING":
			_, _ = fmt.Fprint(conn, "PONG\r\n")
		case words[0] == "SUB":
			sid = words[len(words)-1]
		case words[0] == "PUB" && len(words) == 4:
			for _, one := range s {
				text := one.text()
				_, _ = fmt.Fprintf(conn, "MSG %s %s %d\r\n%s\r\n", words[2], sid, len(text), text)
			}
		}
	}
}

// An answer that leaves accounts out says nothing about their streams, so that the round fails.
func TestAccountsLeftOut(t *testing.T) {
	t.Parallel()
	whole := jsz{Meta: &meta{Leader: "nats-0", Size: 1}, Accounts: []account{{Name: "A"}}, Total: 1}
	if got, err := adapterOf(t, "nats-0", script{{"nats-0", whole}}).gather(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("a whole answer gave %+v, %v", got, err)
	}
	part := whole
	part.Total = 2
	if got, err := adapterOf(t, "nats-0", script{{"nats-0", part}}).gather(t.Context()); err == nil || !strings.Contains(err.Error(), "server nats-0 has 2 accounts, and its answer describes 1") {
		t.Errorf("a part of an answer gave %+v, %v", got, err)
	}
}

// A round waits for the server's own answer, however late, and for the members of its meta group alone. The pause is
// longer than idle.
func TestARoundWaitsForItsOwnGroup(t *testing.T) {
	inGroup := jsz{Meta: &meta{Leader: "nats-0", Size: 3, Replicas: []peer{{Name: "nats-1", ID: idOf("nats-1")}, {Name: "unknown at this time", ID: idOf("nats-2")}}}}
	own, one, two := said{"nats-0", inGroup}, said{"nats-1", inGroup}, said{"nats-2", inGroup}
	else0, else1 := said{"else-0", jsz{Meta: &meta{Leader: "else-0", Size: 3}}}, said{"else-1", jsz{Meta: &meta{Leader: "else-0", Size: 3}}}
	var pause said
	for what, c := range map[string]struct {
		events []said
		want   string
		fails  string
	}{
		"own answer last":                {[]said{one, two, pause, own}, "nats-0 nats-1 nats-2", ""},
		"another group between":          {[]said{else0, own, else1, one, two}, "nats-0 nats-1 nats-2", ""},
		"a member is away":               {[]said{else0, own, one}, "nats-0 nats-1", ""},
		"a member answers after a pause": {[]said{own, one, pause, two}, "nats-0 nats-1", ""},
		"own answer is away":             {[]said{one, two, else0}, "", "the server nats-0 itself does not answer"},
		"no answer":                      {nil, "", "no server answers user sys"},
	} {
		left := c.events
		got, err := (&Adapter{cfg: Config{User: "sys"}}).collect("nats-0", func(briefly bool) ([]byte, error) {
			for len(left) > 0 {
				next := left[0]
				left = left[1:]
				switch {
				case next.server != "":
					return next.text(), nil
				case briefly:
					return nil, context.DeadlineExceeded
				}
			}
			return nil, context.DeadlineExceeded // of idle, or of the round
		})
		if names := strings.Join(slices.Sorted(maps.Keys(got)), " "); names != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %s, %v", what, names, err)
		}
	}
}
