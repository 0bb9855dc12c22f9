package provider

import (
	"errors"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"cadre.dev/client"
)

// addError adds a failed call with its way out.
func addError(diags *diag.Diagnostics, summary string, err error) {
	var failed *client.Error
	if errors.As(err, &failed) {
		detail := failed.Message
		if failed.Hint != "" {
			detail += "\n\n" + failed.Hint
		}
		diags.AddError(summary, detail)
		return
	}
	diags.AddError(summary, err.Error())
}

// lines joins non-empty lines.
func lines(list ...string) string {
	out := []string{}
	for _, one := range list {
		if one != "" {
			out = append(out, one)
		}
	}
	return strings.Join(out, "\n")
}
