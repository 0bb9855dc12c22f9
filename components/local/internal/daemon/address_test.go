package daemon

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// port of a listener that ends with the test.
func opened(t *testing.T, a hostAddress) string {
	t.Helper()
	l, err := a.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// closed opens an address and closes it again.
func closed(t *testing.T, a hostAddress) string {
	t.Helper()
	l, err := a.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestAnAddressIsTakenAgain(t *testing.T) {
	first := closed(t, hostAddress{name: "gateway", flag: "gateway", want: anyPort})
	if again := opened(t, hostAddress{name: "gateway", flag: "gateway", want: anyPort, had: first, hasCVMs: true}); again != first {
		t.Errorf("%s became %s", first, again)
	}
}

func TestANewAddressIsNoOutgoingConnections(t *testing.T) {
	if firstOutgoing() <= lowestPort+100 {
		t.Skip("this machine gives almost all ports to outgoing connections")
	}
	_, port, _ := net.SplitHostPort(opened(t, hostAddress{want: anyPort}))
	if n, err := net.LookupPort("tcp", port); err != nil || n >= firstOutgoing() {
		t.Errorf("port %s is one of those from %d up that any program may be given", port, firstOutgoing())
	}
}

func TestATakenAddress(t *testing.T) {
	taken := opened(t, hostAddress{want: anyPort})
	_, port, _ := net.SplitHostPort(taken)
	t.Run("that contexts name is an error with the way out", func(t *testing.T) {
		_, err := hostAddress{name: "gateway", flag: "gateway", want: anyPort, had: taken, hasCVMs: true}.listen(t.Context())
		if err == nil {
			t.Fatal("no error")
		}
		for _, want := range []string{"port " + port, "for the gateway", "taken by another program", "--gateway 127.0.0.1:PORT"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
	})
	t.Run("without a booted CVM it gives way", func(t *testing.T) {
		if got := opened(t, hostAddress{name: "gateway", flag: "gateway", want: anyPort, had: taken}); got == taken {
			t.Errorf("listens on %s twice", got)
		}
	})
	t.Run("that was asked for is an error", func(t *testing.T) {
		if _, err := (hostAddress{name: "API", flag: "api", want: taken}).listen(t.Context()); err == nil || !strings.Contains(err.Error(), "--api "+taken) {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("gives way to one that is asked for", func(t *testing.T) {
		free := closed(t, hostAddress{want: anyPort})
		if got := opened(t, hostAddress{name: "gateway", flag: "gateway", want: free, had: taken, hasCVMs: true}); got != free {
			t.Errorf("listens on %s, want %s", got, free)
		}
	})
}

func TestTheDomainIsKept(t *testing.T) {
	for _, c := range []struct {
		want, had, got string
		hasCVMs        bool
	}{
		{got: defaultDomain},
		{want: "a.test", got: "a.test"},
		{had: "a.test", got: "a.test", hasCVMs: true},
		{want: "a.test", had: "a.test", got: "a.test", hasCVMs: true},
		{want: "b.test", had: "a.test", got: "b.test"},
		{want: "b.test", had: "a.test", hasCVMs: true},
	} {
		got, err := domain(c.want, c.had, c.hasCVMs)
		if got != c.got || (err == nil) != (c.got != "") {
			t.Errorf("domain(%q, %q, %v) = %q, %v; want %q", c.want, c.had, c.hasCVMs, got, err, c.got)
		}
		if err != nil && !strings.Contains(err.Error(), "--domain") {
			t.Errorf("%q does not name the flag", err)
		}
	}
}

func TestABrokenStartFileNamesTheWayOut(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(startFilePath(dir), []byte(`{"api": "127.0.0.1:1`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(context.Background(), Config{StateDir: dir}, nil); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "start.json")) || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("error = %v", err)
	}
}
