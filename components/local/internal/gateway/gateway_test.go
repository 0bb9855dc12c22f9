package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	domain = "gw.cadre.test"
	idA    = "00112233445566778899aabbccddeeff00112233"
)

// hello makes a real ClientHello.
func hello(t testing.TB, name string) []byte {
	t.Helper()
	c, s := net.Pipe()
	go func() {
		_ = tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	}()
	defer s.Close()
	defer c.Close()
	_, taken, err := ReadHello(s)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// fragmented splits the one record of raw into records of n bytes.
func fragmented(raw []byte, n int) []byte {
	var out []byte
	for body := raw[recordHeaderLen:]; len(body) > 0; {
		part := body[:min(n, len(body))]
		body = body[len(part):]
		out = append(out, raw[0], raw[1], raw[2], byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

func TestReadHello(t *testing.T) {
	raw := hello(t, "a.b.c")
	for name, in := range map[string][]byte{
		"one record": raw, "many records": fragmented(raw, 7), "more behind": append(bytes.Clone(raw), "early data"...),
	} {
		got, taken, err := ReadHello(bytes.NewReader(in))
		if err != nil || got != "a.b.c" {
			t.Errorf("%s: ReadHello = %q, %v", name, got, err)
		}
		if !bytes.HasPrefix(in, taken) {
			t.Errorf("%s: taken bytes differ from those sent", name)
		}
	}
	if got, _, err := ReadHello(bytes.NewReader(hello(t, ""))); err != nil || got != "" {
		t.Errorf("no name: ReadHello = %q, %v", got, err)
	}
	huge := append([]byte{22, 3, 1, 0x40, 0x00, 1, 0xff, 0xff, 0xff}, make([]byte, 1<<15)...)
	for name, in := range map[string][]byte{
		"empty": {}, "http": []byte("GET / HTTP/1.1\r\n\r\n"), "cut": raw[:len(raw)-1], "huge": huge,
		"alert": {21, 3, 3, 0, 2, 1, 0}, "empty record": {22, 3, 1, 0, 0}, "server hello": {22, 3, 3, 0, 4, 2, 0, 0, 0},
	} {
		if got, _, err := ReadHello(bytes.NewReader(in)); err == nil {
			t.Errorf("%s: accepted as %q", name, got)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add(hello(f, "x.gw.cadre.test"))
	f.Add(fragmented(hello(f, "y"), 3))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		name, taken, err := ReadHello(bytes.NewReader(in))
		if len(taken) > maxHello || !bytes.HasPrefix(in, taken) {
			t.Fatalf("took %d bytes that were not sent", len(taken))
		}
		if err != nil && name != "" {
			t.Fatalf("name %q beside error %v", name, err)
		}
		// The gateway must read the same name as the standard library.
		if want, ok := stdName(in); ok && err == nil && want != name {
			t.Fatalf("name %q, crypto/tls reads %q", name, want)
		}
	})
}

// stdName lets crypto/tls read the hello.
func stdName(in []byte) (name string, ok bool) {
	stop := errors.New("stop")
	conn := readOnly{bytes.NewReader(in)}
	_ = tls.Server(conn, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = h.ServerName, true
		return nil, stop
	}}).Handshake()
	return name, ok
}

type readOnly struct{ r io.Reader }

func (c readOnly) Read(p []byte) (int, error)       { return c.r.Read(p) }
func (c readOnly) Write(p []byte) (int, error)      { return len(p), nil }
func (c readOnly) Close() error                     { return nil }
func (c readOnly) LocalAddr() net.Addr              { return nil }
func (c readOnly) RemoteAddr() net.Addr             { return nil }
func (c readOnly) SetDeadline(time.Time) error      { return nil }
func (c readOnly) SetReadDeadline(time.Time) error  { return nil }
func (c readOnly) SetWriteDeadline(time.Time) error { return nil }

func TestParseName(t *testing.T) {
	for name, want := range map[string]Name{
		idA + "-7443s." + domain:               {idA, 7443, true, false},
		strings.ToUpper(idA+"-443s.") + domain: {idA, 443, true, false},
		idA + "-65535s." + domain + ".":        {idA, 65535, true, false},
		idA + "-s." + domain:                   {idA, 443, true, false},
		idA + "-8080." + domain:                {idA, 8080, false, false},
		idA + "-8080g." + domain:               {idA, 8080, false, true},
		idA + "-g." + domain:                   {idA, 80, false, true},
		idA + "." + domain:                     {idA, 80, false, false},
		idA + "-." + domain:                    {},
		idA + "-80sg." + domain:                {},
		idA + "-80gs." + domain:                {},
		idA + "-80-90s." + domain:              {},
		idA + "-+80." + domain:                 {},
		idA + "-70000s." + domain:              {},
		idA + "-0s." + domain:                  {},
		idA + "-07443s." + domain:              {},
		idA[:39] + "-7443s." + domain:          {},
		"zz" + idA[2:] + "-7443s." + domain:    {},
		idA + "-7443s.example.com":             {},
		"x." + idA + "-7443s." + domain:        {},
		domain:                                 {},
		"":                                     {},
	} {
		got, err := ParseName(name, domain)
		if got != want || (err == nil) != (want != Name{}) {
			t.Errorf("ParseName(%q) = %+v, %v, want %+v", name, got, err, want)
		}
	}
}

// serve runs a gateway in front of backends and returns its address.
func serve(t *testing.T, resolve func(string) []Backend) (*Gateway, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := Certify(t.TempDir(), domain, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	g := New(Config{Domain: domain, Certificate: &certificate, Resolve: resolve, Alive: func(string) bool { return true }, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Serve(ctx, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return g, l.Addr().String()
}

func to(addr, uuid string) Backend {
	return Backend{UUID: uuid, Dial: func(ctx context.Context, _ uint16) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}}
}

func TestGatewayPassesTLSThroughAndDropsDeadCVMs(t *testing.T) {
	// The test server is only the source of a certificate.
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: srv.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				// Echo to the end of the input, then one more word: needs half-close.
				_, _ = io.Copy(c, c)
				_, _ = io.WriteString(c, "!")
			}()
		}
	}()
	dead := Backend{UUID: "dead", Dial: func(context.Context, uint16) (net.Conn, error) { return nil, errors.New("down") }}
	g, addr := serve(t, func(id string) []Backend {
		if id != idA {
			return nil
		}
		return []Backend{dead, to(l.Addr().String(), "live")}
	})

	c, err := tls.Dial("tcp", addr, &tls.Config{ServerName: idA + "-443s." + domain, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello!" {
		t.Errorf("echo = %q, %v", got, err)
	}

	c, err = tls.Dial("tcp", addr, &tls.Config{ServerName: idA + "-443s." + domain, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := g.Counters(); got.ActiveByCVM["live"] < 1 {
		t.Errorf("counters = %+v, want a connection of live", got)
	}
	g.Drop("live")
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after the CVM died: %v, want a reset", err)
	}

	_, err = tls.Dial("tcp", addr, &tls.Config{ServerName: strings.Repeat("f", 40) + "-443s." + domain, InsecureSkipVerify: true})
	if err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("unknown id: %v, want the alert unrecognized_name", err)
	}
	if got := g.Counters(); got.Unknown != 1 {
		t.Errorf("counters = %+v, want one unknown", got)
	}
}
