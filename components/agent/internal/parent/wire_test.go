package parent

import (
	"errors"
	"strings"
	"testing"
)

func TestTOK22_ARequestIsReadStrictly(t *testing.T) {
	for _, r := range []request{
		{verb: verbKey}, {verb: verbNewKey}, {verb: verbRun}, {verb: verbBeat},
		{verb: verbListen, name: name{"tcp", "127.0.0.1:80"}}, {verb: verbRelease, name: name{"tcp", "[::1]:80"}},
	} {
		if got, err := parseRequest(r.encode()); err != nil || got != r {
			t.Errorf("%q: got %+v, %v", r.encode(), got, err)
		}
	}
	for _, text := range []string{
		"", " ", "key ", "key x", "keys", "beat 1", "listen", "listen tcp", "listen tcp a b", "LISTEN tcp a",
		"listen tcp " + strings.Repeat("a", requestLimit),
	} {
		if got, err := parseRequest([]byte(text)); err == nil {
			t.Errorf("%.40q is read as %+v", text, got)
		}
	}
}

func TestAnAnswer(t *testing.T) {
	if got, err := parseAnswer(encodeAnswer([]byte("yes no"), nil)); err != nil || string(got) != "yes no" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := parseAnswer(encodeAnswer(nil, errFull)); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	long := encodeAnswer(nil, errors.New(strings.Repeat("x", 2*answerLimit)))
	if _, err := parseAnswer(long); len(long) > answerLimit || err == nil {
		t.Errorf("%d bytes, %v", len(long), err)
	}
	for _, text := range []string{"", "yes", "perhaps "} {
		if _, err := parseAnswer([]byte(text)); err == nil {
			t.Errorf("%q is an answer", text)
		}
	}
}

func TestTOK22_SocketsThatAParentKeeps(t *testing.T) {
	sessions := []name{{"tcp", ":7443"}, {"udp4", "0.0.0.0:0"}}
	for n, want := range map[name]bool{
		{"tcp", "127.0.0.1:7070"}:       true,
		{"tcp4", "127.50.1.1:5432"}:     true,
		{"tcp", "[::1]:80"}:             true,
		{"tcp", "127.0.0.1:0"}:          true,
		{"tcp", ":7443"}:                true,
		{"udp4", "0.0.0.0:0"}:           true,
		{"udp", "127.0.0.1:53"}:         false,
		{"tcp", ":7444"}:                false,
		{"tcp", "0.0.0.0:7443"}:         false,
		{"tcp", "10.0.0.1:80"}:          false,
		{"tcp", "localhost:80"}:         false,
		{"tcp", "127.0.0.1"}:            false,
		{"tcp", "127.0.0.1:http"}:       false,
		{"tcp", "127.0.0.1:70000"}:      false,
		{"unix", "127.0.0.1:80"}:        false,
		{"udp4", "127.0.0.1:7443"}:      false,
		{"tcp", "[::ffff:10.0.0.1]:80"}: false,
	} {
		if got := holds(n, sessions); got != want {
			t.Errorf("%s: %v, want %v", n, got, want)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("listen tcp 127.0.0.1:80"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRequest(data)
		if err == nil && string(r.encode()) != string(data) {
			t.Errorf("%q is read as %q", data, r.encode())
		}
	})
}
