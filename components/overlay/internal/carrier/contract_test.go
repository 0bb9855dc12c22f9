package carrier_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/carrier/carriertest"
)

func TestContract(t *testing.T) { carriertest.Run(t, byteStreams) }

// byteStreams makes both ends of a byte-stream Session over loopback.
func byteStreams(t *testing.T) (dialer, acceptor carrier.Session) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	accepted := make(chan carrier.Session, 1)
	go func() {
		defer close(accepted)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		s, err := carrier.Server(ctx, tls.Server(carrier.Metered(conn), &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		}), log)
		if err == nil {
			accepted <- s
		}
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := carrier.Client(ctx, tls.Client(carrier.Metered(conn), &tls.Config{InsecureSkipVerify: true}), log)
	if err != nil {
		t.Fatal(err)
	}
	a, ok := <-accepted
	if !ok {
		t.Fatal("no session at the acceptor")
	}
	t.Cleanup(func() {
		for _, s := range []carrier.Session{d, a} {
			s.Close(errors.New("test is over"))
			s.Wait()
		}
	})
	return d, a
}
