package baseline

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/lab/worker"
)

// AppConfig is the config of the role "app", a source and sink of traffic.
type AppConfig struct {
	load.Sockets
	// At is where to serve; "" serves nothing.
	At string `json:"at,omitempty"`
	// TLS is spoken on every connection; nil is plain TCP.
	TLS *TLSConfig `json:"tls,omitempty"`
}

// TLSConfig is a certificate for both directions and whom to believe.
type TLSConfig struct {
	Certificate []byte `json:"certificate"` // PEM
	Key         []byte `json:"key"`         // PEM
	Roots       []byte `json:"roots"`       // PEM
	ServerName  string `json:"server_name"`
}

// Reach are the arguments of "reach" and "first".
type Reach struct {
	To     string        `json:"to"`
	Within time.Duration `json:"within"`
}

// App is the role "app". In addition to the methods of package load, "address" returns its listen
// address, "reach" returns when a connection is accepted, and "first" when a ping has been
// answered, with the moment. Both try without pause.
func App(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var c AppConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	dial := load.Dialer(c.Mode)
	var own *tls.Config
	if c.TLS != nil {
		var err error
		if own, err = c.TLS.config(); err != nil {
			return worker.Actor{}, err
		}
		dial = dialTLS(c.Sockets, own)
	}
	server := &load.Server{}
	methods := load.Methods(load.Client(ctx, dial), server)
	methods["reach"] = worker.Typed(func(ctx context.Context, a Reach) (time.Time, error) {
		return keepTrying(ctx, a, func(ctx context.Context) error {
			conn, err := c.Dial(ctx, a.To)
			if err == nil {
				_ = conn.Close()
			}
			return err
		})
	})
	methods["first"] = worker.Typed(func(ctx context.Context, a Reach) (time.Time, error) {
		return keepTrying(ctx, a, func(ctx context.Context) error { return load.PingOnce(ctx, dial, a.To) })
	})
	if c.At != "" {
		ln, err := c.Listen(ctx, c.At)
		if err != nil {
			return worker.Actor{}, fmt.Errorf("listen: %w", err)
		}
		address := ln.Addr().String()
		if own != nil {
			ln = tls.NewListener(ln, own)
		}
		server.Listen(ln)
		methods["address"] = worker.Typed(func(context.Context, load.Nothing) (string, error) { return address, nil })
	}
	return worker.Actor{Methods: methods, Close: server.Close}, nil
}

// keepTrying runs f until it succeeds, and returns the moment.
func keepTrying(ctx context.Context, a Reach, f func(context.Context) error) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Within)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return time.Now(), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%s not reached within %v: %w", a.To, a.Within, err)
		}
	}
}

func (c *TLSConfig) config() (*tls.Config, error) {
	cert, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.Roots) {
		return nil, errors.New("read roots: no certificate")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: roots, ServerName: c.ServerName,
		// Full records from the start: the fastest that the library can do.
		DynamicRecordSizingDisabled: true,
	}, nil
}

func dialTLS(sockets load.Sockets, config *tls.Config) load.Dialer {
	return func(ctx context.Context, to string, mode load.Mode) (net.Conn, error) {
		beneath, err := sockets.Dial(ctx, to)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(beneath, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = beneath.Close()
			return nil, err
		}
		return load.Announce(conn, mode)
	}
}
