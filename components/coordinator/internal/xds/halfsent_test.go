package xds

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// TestThreat_DOR10_HalfSentMessagesEnd: they end in time at any size.
func TestThreat_DOR10_HalfSentMessagesEnd(t *testing.T) {
	const limit = 500 * time.Millisecond
	announced := binary.BigEndian.AppendUint32([]byte{0}, 1000)
	for name, part := range map[string][]byte{
		"nothing": nil, "a part of the prefix": announced[:3], "the prefix": announced, "a part of the message": append(announced, make([]byte, 999)...),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := New(Config{
				Tokens: &ledger{}, Proxies: func(string) []Identity { return nil }, Holds: func(string, string) bool { return true },
				Now: time.Now, Log: slog.New(slog.DiscardHandler), Limits: Limits{HalfSent: limit},
			})
			go func() { _ = r.Run(ctx) }()
			near, far := net.Pipe()
			go r.Serve(ctx, Caller{Group: "web", Slot: "web-0", Boot: "b"}, far)
			conn, err := (&http2.Transport{AllowHTTP: true}).NewClientConn(near)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // at the end
			body, sending := io.Pipe()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://relay"+path, body)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = sending.Write(part) }()
			began := time.Now()
			resp, err := conn.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			status, ok := readStatus(resp.Header, resp.Trailer)
			if took := time.Since(began); !ok || !strings.Contains(status.text, "broke off") || took < limit || took > 20*limit {
				t.Errorf("%+v after %v", status, took)
			}
			_ = sending.Close()
			_ = resp.Body.Close()
		})
	}
}
