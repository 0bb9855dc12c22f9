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

// groupUnread adds that a group could not be read, with a way out where the group does not exist.
func groupUnread(name string, err error, diags *diag.Diagnostics) {
	if client.KindOf(err) == client.NotFound {
		diags.AddAttributeError(groupPath, "There is no group "+name,
			"`cadre group list` says which there are. If this configuration makes it, name it by its resource, such as cadre_group.web.name, so that it is made first.")
		return
	}
	addError(diags, "Group "+name+" cannot be read", err)
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
