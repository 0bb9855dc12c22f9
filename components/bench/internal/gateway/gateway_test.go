package gateway

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"testing"
)

func TestPassesByName(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := New(listener)
	defer g.Close()
	there := httptest.NewTLSServer(nil)
	defer there.Close()
	g.Route("known.example", there.Listener.Addr().String())
	dial := func(name string) error {
		conn, err := (&tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}}).DialContext(context.Background(), "tcp", g.Address())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		_, err = io.ReadAll(conn)
		return err
	}
	if err := dial("known.example"); err != nil {
		t.Errorf("a known name: %v", err)
	}
	if err := dial("other.example"); err == nil {
		t.Error("an unknown name was passed")
	}
	g.Route("known.example")
	if err := dial("known.example"); err == nil {
		t.Error("a name that was taken away was passed")
	}
}
