package xds

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
)

// stream is one of a member's proxy.
type stream struct {
	relay   *Relay
	caller  Caller
	node    node
	cancel  context.CancelCauseFunc
	control *control
}

// end ends the stream, once, with a reason.
func (s *stream) end(why *refusal) { s.cancel(why) }

// chunk is how much of an answer is passed on at once.
const chunk = 8 << 10

// relayed opens the stream at Consul and passes on what is said until either side ends it.
func (s *stream) relayed(ctx context.Context, w http.ResponseWriter, up *upload, t *token) (refused *refusal, begun bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.relay.cfg.Consul+path, up)
	if err != nil {
		return unavailable("make a request", err), false
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Te", "trailers")
	req.Header.Set("X-Consul-Token", t.Secret)
	// The answer begins with Consul's first message, which may be long in coming.
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
		// It is the coordinator's token that Consul does not take.
		s.relay.keeper.spend(t)
		return refuse(codes.Unavailable, "consul does not take the coordinator's token any more; open another stream (%.300s)", status.text), begun
	}
	refused = refuse(status.code, "consul ended the stream: %.300s", status.text)
	// Its servers share all streams among them: one that has its part refuses more, for good.
	refused.elsewhere = status.code == codes.ResourceExhausted
	return refused, begun
}

// pass copies Consul's messages. Each part has to be taken in time.
func (s *stream) pass(ctx context.Context, w http.ResponseWriter, from io.Reader) (begun bool, err error) {
	// Who waits for the member to take something learns of the stream's end as well.
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

// why is why a stream broke off: because it was ended, because of what the member sent, or err.
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
