package callers

import (
	"context"
	"crypto/sha256"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// maxToken bounds a token: Consul's are UUIDs.
const maxToken = 128

// known marks a call with a good token.
type known struct {
	conn  *conn
	token digest
}

type knownKey struct{}

// IsOperator reports whether an operator makes the call with this context.
func IsOperator(ctx context.Context) bool {
	_, ok := ctx.Value(knownKey{}).(known)
	return ok
}

// TokenOf returns the only token among a call's metadata.
func TokenOf(values []string) (token string, ok bool) {
	if len(values) != 1 || values[0] == "" || len(values[0]) > maxToken {
		return "", false
	}
	return values[0], true
}

// Admit decides about a call when its headers have arrived; it is a tap.ServerInHandle.
func (c *Callers) Admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	one := connOf(ctx)
	if one == nil {
		return ctx, status.Error(codes.Internal, "the call came over an unregistered connection")
	}
	token, has := TokenOf(info.Header.Get(c.cfg.Token))
	sum, err := c.enter(one, token, has)
	if err == nil {
		return context.WithValue(ctx, knownKey{}, known{one, sum}), nil
	}
	if c.cfg.Open(info.FullMethodName) {
		err = c.openCall(one)
	}
	if err != nil && c.refusedOften(one) {
		_ = one.Close()
	}
	return ctx, err
}

// enter gives the connection of a good token an operator's place.
func (c *Callers) enter(one *conn, token string, has bool) (digest, error) {
	if !has {
		return digest{}, status.Error(codes.Unauthenticated, "a Consul ACL token is needed in the metadata "+c.cfg.Token)
	}
	sum := digest(sha256.Sum256([]byte(token)))
	if err := c.tokens.judge(one, sum, token); err != nil {
		return sum, err
	}
	if !c.promote(one, sum) {
		return sum, status.Errorf(codes.ResourceExhausted, "OVERLOADED: %d connections of operators are in use, or %d with this token; close some", c.classes[operator].places, eachToken)
	}
	return sum, nil
}

// AdmitHTTP decides about a request of a connection that Credentials passed on, once its headers have
// arrived. token is nil or has the request's token. After nil the caller calls done at the end of
// the request, with whether the request was denied. An error has the code of Admit; last: close the
// connection after the answer.
func (c *Callers) AdmitHTTP(secure net.Conn, token []string) (done func(denied bool), last bool, err error) {
	a, _ := secure.RemoteAddr().(address)
	if a.conn == nil {
		return nil, true, status.Error(codes.Internal, "the request came over an unregistered connection")
	}
	text, has := TokenOf(token)
	sum, err := c.enter(a.conn, text, has)
	if err != nil {
		return nil, c.refusedOften(a.conn), err
	}
	c.runs(a.conn, +1)
	return func(denied bool) {
		c.runs(a.conn, -1)
		if denied {
			c.tokens.doubt(sum)
		}
	}, false, nil
}

// openCall counts a call that any caller may make.
func (c *Callers) openCall(one *conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.class == operator {
		if one.running > 0 || time.Since(one.used) < unused {
			return nil
		}
		c.moveLocked(one, unauthenticated) // its token has no recent use
	}
	if one.open++; one.open > openCalls {
		return status.Errorf(codes.ResourceExhausted, "OVERLOADED: %d such calls were made over this connection; use another one", openCalls)
	}
	return nil
}

// refusedOften counts a refused call and reports whether it exceeds the limit.
func (c *Callers) refusedOften(one *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.refused++
	return one.class != operator && one.refused > refusals
}

// Unary implements grpc.UnaryServerInterceptor.
func (c *Callers) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	done := c.begin(ctx)
	answer, err := handle(ctx, req)
	done(err)
	return answer, err
}

// Stream implements grpc.StreamServerInterceptor.
func (c *Callers) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	done := c.begin(stream.Context())
	err := handle(srv, stream)
	done(err)
	return err
}

// begin keeps the connection of an operator's call in its class until the call ends.
func (c *Callers) begin(ctx context.Context) (done func(error)) {
	k, ok := ctx.Value(knownKey{}).(known)
	if !ok {
		return func(error) {}
	}
	c.runs(k.conn, +1)
	return func(err error) {
		c.runs(k.conn, -1)
		if code := status.Code(err); code == codes.PermissionDenied || code == codes.Unauthenticated {
			c.tokens.doubt(k.token) // the token may have been revoked
		}
	}
}

func (c *Callers) runs(one *conn, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.running += n
	one.used = time.Now()
}
