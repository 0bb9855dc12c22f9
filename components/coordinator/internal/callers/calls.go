package callers

import (
	"context"
	"crypto/sha256"
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
	var err error
	if has {
		sum := digest(sha256.Sum256([]byte(token)))
		if err = c.tokens.judge(one, sum, token); err == nil {
			if c.promote(one, sum) {
				return context.WithValue(ctx, knownKey{}, known{one, sum}), nil
			}
			err = status.Errorf(codes.ResourceExhausted, "OVERLOADED: %d connections of operators are in use, or %d with this token; close some", c.classes[operator].places, eachToken)
		}
	} else {
		err = status.Error(codes.Unauthenticated, "a Consul ACL token is needed in the metadata "+c.cfg.Token)
	}
	if c.cfg.Open(info.FullMethodName) {
		err = c.openCall(one)
	}
	if err != nil && c.refusedOften(one) {
		_ = one.Close()
	}
	return ctx, err
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
