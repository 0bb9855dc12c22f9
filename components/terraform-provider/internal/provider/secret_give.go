package provider

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/secret"
)

// give waits until the group declares the secret, gives the value, and completes m, which loses the value. false: the value
// is not in force; the reason was added.
func (r *secretResource) give(ctx context.Context, m *secretModel, timeout time.Duration, diags *diag.Diagnostics) bool {
	value, known := m.value(diags)
	m.Value = types.StringNull()
	cl := r.connection.use(diags)
	if cl == nil || !known {
		return false
	}
	own, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var p progress
	var there *client.Secret
	var last error // of the last look that ended in time
	err := client.Poll(own, func(ctx context.Context) (found bool, err error) {
		defer func() {
			if own.Err() == nil {
				last = err
			}
		}()
		if there, err = m.declared(ctx, cl); err == nil && there == nil {
			p.message(ctx)("secret " + m.id() + " waits until the spec of its group declares it")
		}
		return there != nil, err
	}, p.lost(own))
	switch {
	case err != nil && last != nil:
		addError(diags, "Secret "+m.id()+" cannot be read", last)
		return false
	case err != nil && own.Err() != nil && ctx.Err() == nil:
		diags.AddAttributeError(path.Root("name"), fmt.Sprintf("Group %s declares no secret %s after %s", m.Group.ValueString(), m.Name.ValueString(), timeout),
			fmt.Sprintf("Declare it with secret %q { source = \"operator\" } in the spec of the group, and apply again.", m.Name.ValueString()))
		return false
	case err != nil:
		addError(diags, "Secret "+m.id()+" cannot be read", err)
		return false
	case there.Source != string(group.SecretOperator):
		m.refuseDerived(diags)
		return false
	}
	done, err := cl.SetSecret(own, m.Group.ValueString(), m.Name.ValueString(), value, m.Reason.ValueString(), false)
	switch {
	case err != nil:
		addError(diags, "Secret "+m.id()+" does not get its value", err)
		return false
	case !done.InForce:
		diags.AddError("The value of secret "+m.id()+" is not in force yet",
			fmt.Sprintf("The coordinators have epoch %d of it, and the leader did not put it in force in time: see `cadre secret list %s`. Apply again, which gives the value again.", done.Epoch, m.Group.ValueString()))
		return false
	}
	tflog.Info(ctx, fmt.Sprintf("epoch %d of %s is in force; its %d bytes are sealed to the key that %s proved", done.Epoch, m.id(), done.Bytes, done.By))
	if strings.HasSuffix(value.RevealString(), "\n") {
		diags.AddWarning("The value of secret "+m.id()+" ends with a line end", "The line end is part of the value. For a password, cut it off.")
	}
	m.ID, m.Epoch = types.StringValue(m.id()), types.Int64Value(int64(done.Epoch))
	return true
}

// value is the value of the configuration, which m must have. known is false when it is not known yet, or wrong; the reason
// was added then.
func (m secretModel) value(diags *diag.Diagnostics) (value secret.Value, known bool) {
	if m.Value.IsUnknown() || m.File.IsUnknown() {
		return value, false
	}
	text, at, subject := []byte(m.Value.ValueString()), "value_wo", "The value"
	if !m.File.IsNull() {
		var err error
		if text, err = readBounded(m.File.ValueString()); err != nil {
			diags.AddAttributeError(path.Root("from_file"), "Invalid from_file", err.Error()+". For a file that this run makes, set value_wo to its content.")
			return value, false
		}
		at, subject = "from_file", "The file "+m.File.ValueString()
	}
	if p := group.SealedProblem(len(text)); p != "" {
		diags.AddAttributeError(path.Root(at), "Invalid "+at, subject+" "+p+".")
		return value, false
	}
	return secret.New(text), true
}

// readBounded reads a file, and at most one byte more than a value may have.
func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(file, group.MaxSealedBytes+1))
}
