package xds

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
)

// stream is an open stream of a member's proxy.
type stream struct {
	relay   *Relay
	caller  Caller
	node    node
	cancel  context.CancelCauseFunc
	control *control
}

// end ends the stream, once, with a reason.
func (s *stream) end(why *refusal) { s.cancel(why) }

// chunk is the maximum size of a copied part of an answer.
const chunk = 8 << 10

// relayed opens the stream at Consul and forwards messages until either side ends it.
func (s *stream) relayed(ctx context.Context, w http.ResponseWriter, up *upload, t *token) (refused *refusal, begun bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.relay.cfg.Consul+path, up)
	if err != nil {
		return unavailable("make a request", err), false
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Te", "trailers")
	req.Header.Set("X-Consul-Token", t.Secret)
	// The answer begins with Consul's first message, which may take long.
	resp, err := s.relay.consul.RoundTrip(req)
	if err != nil {
		return s.why(ctx, up, "consul does not answer here", err), false
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return unavailable("consul answered", errors.New(resp.Status)), false
	}
	if begun, err = s.pass(ctx, w, resp.Body); err != nil {
		return s.why(ctx, up, "the stream broke off", err), begun
	}
	status, ok := readStatus(resp.Header, resp.Trailer)
	switch {
	case !ok:
		return refuse(codes.Unavailable, "consul ended the stream and does not say why"), begun
	case status.code == codes.Unauthenticated || status.code == codes.PermissionDenied:
		// Consul rejects the coordinator's token.
		s.relay.keeper.spend(t)
		return refuse(codes.Unavailable, "consul does not take the coordinator's token any more; open another stream (%.300s)", status.text), begun
	}
	refused = refuse(status.code, "consul ended the stream: %.300s", status.text)
	// Consul's servers balance all streams among them: a full one rejects more streams for long.
	refused.elsewhere = status.code == codes.ResourceExhausted
	return refused, begun
}

// pass copies Consul's messages. The member must read each part in time.
func (s *stream) pass(ctx context.Context, w http.ResponseWriter, from io.Reader) (begun bool, err error) {
	// A write that waits for the member also ends with the stream.
	stop := context.AfterFunc(ctx, func() { s.control.leave(farewell) })
	defer stop()
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !begun {
				w.Header().Set("Content-Type", contentType)
				begun = true
			}
			s.control.write(s.relay.shares.limits.Unread)
			if ctx.Err() != nil {
				return begun, context.Cause(ctx)
			}
			if _, err := w.Write(buf[:n]); err != nil {
				return begun, err
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return begun, err
			}
			s.control.written()
		}
		switch {
		case errors.Is(err, io.EOF):
			return begun, nil
		case err != nil:
			return begun, err
		}
	}
}

// why returns why a stream broke off: its end, a fault in the member's messages, or err.
func (s *stream) why(ctx context.Context, up *upload, what string, err error) *refusal {
	if refused, is := errors.AsType[*refusal](context.Cause(ctx)); is {
		return refused
	}
	if refused := up.why(); refused != nil {
		return refused
	}
	if ctx.Err() != nil {
		return refuse(codes.Canceled, "the member ended the stream")
	}
	return unavailable(what, err)
}
