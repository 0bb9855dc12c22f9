package client

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Operator is a holder of a token for the operators' API.
type Operator struct {
	Name string `json:"name"`
	// Role is view, operate, approve or admin; empty for a token that was made by hand in Consul.
	Role string `json:"role,omitempty"`
	// Groups limit the role operate; empty: all groups.
	Groups []string `json:"groups,omitempty"`
	// Expires is the end of the token; zero: it has none.
	Expires time.Time `json:"expires,omitzero"`
	// Used is the first use of the present token; zero: it was not used yet.
	Used time.Time `json:"used,omitzero"`
	// NextExpires is the end of a rotation's next token, which was not used yet; zero: there is none.
	NextExpires time.Time `json:"next_expires,omitzero"`
	By          string    `json:"by,omitempty"`
	At          time.Time `json:"at,omitzero"`
	// Fault is why the operator has no access; empty: it has.
	Fault string `json:"fault,omitempty"`
}

// NewToken draws an operator's token: a random UUID of version 4, as Consul's own.
func NewToken() (string, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("draw a token: %w", err)
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}

// AddOperator records an operator with the digest of token. The token itself stays on this machine.
func (c *Client) AddOperator(ctx context.Context, o Operator, token string) (Operator, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewOperatorServiceClient(c.conn).AddOperator(ctx, &apiv1.AddOperatorRequest{
		Name: o.Name, Role: o.Role, Groups: o.Groups, Sha256: tokenDigest(token), Expires: timestamppb.New(o.Expires),
	})
	return operatorOf(r.GetOperator()), c.wrap("add operator "+o.Name, err)
}

// RotateOperator records the digest of an operator's next token, with its end. The present token
// works until the first use of the next one.
func (c *Client) RotateOperator(ctx context.Context, name, token string, expires time.Time) (Operator, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewOperatorServiceClient(c.conn).RotateOperator(ctx, &apiv1.RotateOperatorRequest{
		Name: name, Sha256: tokenDigest(token), Expires: timestamppb.New(expires),
	})
	return operatorOf(r.GetOperator()), c.wrap("rotate operator "+name, err)
}

// RemoveOperator ends an operator's access at once, and returns the operator as it was.
func (c *Client) RemoveOperator(ctx context.Context, name string) (Operator, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewOperatorServiceClient(c.conn).RemoveOperator(ctx, &apiv1.RemoveOperatorRequest{Name: name})
	return operatorOf(r.GetOperator()), c.wrap("remove operator "+name, err)
}

// Operators lists all operators, the one of the coordinators' trust file first.
func (c *Client) Operators(ctx context.Context) ([]Operator, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewOperatorServiceClient(c.conn).ListOperators(ctx, &apiv1.ListOperatorsRequest{})
	out := []Operator{}
	for _, one := range r.GetOperators() {
		out = append(out, operatorOf(one))
	}
	return out, c.wrap("list operators", err)
}

// OwnOperator returns the operator that the context's token is of.
func (c *Client) OwnOperator(ctx context.Context) (Operator, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewOperatorServiceClient(c.conn).ShowOperator(ctx, &apiv1.ShowOperatorRequest{})
	return operatorOf(r.GetOperator()), c.wrap("show the own operator", err)
}

// ForOperator returns the context of another operator of the same cluster, with its token. Secrets
// of this operator are left out: the key of the platform, and the claim of the app id.
func (c Context) ForOperator(token string) Context {
	c.Token, c.CoordinatorAppNonce, c.Platform.APIKey = token, "", ""
	return c
}

func tokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func operatorOf(o *apiv1.Operator) Operator {
	out := Operator{Name: o.GetName(), Role: o.GetRole(), Groups: o.GetGroups(), By: o.GetBy(), Fault: o.GetFault()}
	for _, one := range []struct {
		at  *timestamppb.Timestamp
		out *time.Time
	}{{o.GetExpires(), &out.Expires}, {o.GetUsed(), &out.Used}, {o.GetNextExpires(), &out.NextExpires}, {o.GetAt(), &out.At}} {
		if one.at != nil {
			*one.out = one.at.AsTime()
		}
	}
	return out
}
