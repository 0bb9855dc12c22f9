package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"cadre.dev/client"
)

// A spec has one author: the document of a deployment is the whole spec of each of its groups, so the
// next apply of the document would undo a part that another resource wrote.

// deploymentOf returns the deployment whose present version has a group; "": none.
func deploymentOf(ctx context.Context, cl *client.Client, group string) (string, error) {
	list, err := cl.Deployments(ctx)
	for _, d := range list {
		if _, has := d.Present().Digests[group]; has {
			return d.Name, err
		}
	}
	return "", err
}

// documentError is the reason why a resource does not write into the spec of a group of a deployment.
func documentError(group, deployment, wayOut string) error {
	return fmt.Errorf("group %s belongs to deployment %s, whose document is the whole spec of the group: the next apply of the document would undo this change.\n\n%s", group, deployment, wayOut)
}

// settingsInDocument refuses settings of a slot in the spec of a group of a deployment.
func (m instance) settingsInDocument(deployment string) error {
	return documentError(m.Group.ValueString(), deployment, fmt.Sprintf(
		"Write the settings as instance \"%d\" { } into group %q of the document, and take metadata, env, instance_type, exclude_from_rollout, exclude_from_healing, pinned_revision and preserved_state out of this resource. revision, drain, protect and exclude stay here.",
		m.Ordinal.ValueInt64(), m.Group.ValueString()))
}

// inDocument adds an error for a group of a deployment, and reports whether it did. A coordinator that does not answer
// stops the plan elsewhere.
func (r *groupResource) inDocument(ctx context.Context, name string, diags *diag.Diagnostics) bool {
	cl, err := r.connection.open()
	if err != nil {
		return false
	}
	of, err := deploymentOf(ctx, cl, name)
	if err != nil || of == "" {
		return false
	}
	diags.AddAttributeError(path.Root("name"), fmt.Sprintf("Group %s has its spec in deployment %s", name, of), documentError(name, of, fmt.Sprintf(
		"Write the spec into the document. Then take this resource out of the configuration and of the state, which leaves the group as it is: `terraform state rm` with the address of this resource. To delete the group alone: `cadre group delete %s`.", name)).Error())
	return true
}
