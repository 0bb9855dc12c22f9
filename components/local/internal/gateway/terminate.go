package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
)

// terminate ends TLS with the client, whose ClientHello has been read already, and copies between
// it and back, which gets the client's data in the clear.
func (g *Gateway) terminate(ctx context.Context, client net.Conn, hello []byte, back net.Conn, http2 bool) {
	protocol := "http/1.1"
	if http2 {
		protocol = "h2"
	}
	inner := tls.Server(&replayed{Conn: client, first: bytes.NewReader(hello)}, &tls.Config{
		Certificates: []tls.Certificate{*g.cfg.Certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{protocol},
	})
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if err := inner.HandshakeContext(ctx); err != nil {
		g.noHello.Add(1)
		g.cfg.Log.Debug("no TLS with the client", "error", err)
		return
	}
	g.splice(inner, client, back)
}

// replayed is a connection from which something was read ahead.
type replayed struct {
	net.Conn
	first *bytes.Reader
}

func (r *replayed) Read(p []byte) (int, error) {
	if r.first.Len() > 0 {
		return r.first.Read(p)
	}
	return r.Conn.Read(p)
}
