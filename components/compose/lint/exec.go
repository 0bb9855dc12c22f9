package lint

import (
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/exec/declared"
)

// commands judges the commands that the text lets the agent run in its services, and their callers.
func (l *linter) commands() {
	_, problems := declared.Tree(l.root)
	for _, p := range problems {
		l.add(p.Node, p.Path, RuleExec, Error, p.Message, p.Fix)
	}
}

// Actions judges the exec hooks and checks of a spec against its compose text, and the service that
// healing restarts: each names a command that its service declares, or a service with a command.
// Each finding has the field in File, such as `lifecycle_hook["drain"].exec.command`. Spec reports
// the problems of the text itself.
func Actions(spec group.Spec) []Finding {
	asked := func(h group.LifecycleHook) bool { return h.Exec != nil }
	if !slices.ContainsFunc(spec.LifecycleHooks, asked) &&
		!slices.ContainsFunc(spec.HealthChecks, func(c group.HealthCheck) bool { return c.Exec != nil }) &&
		(spec.AutoHealing == nil || spec.AutoHealing.Service == "") && spec.Workload.AdapterCommands() == nil {
		return nil
	}
	commands, problems := declared.Read(spec.Template.Compose)
	var out []Finding
	judge := func(service, command string, a *group.ExecAction) {
		if a == nil || len(problems) > 0 {
			return // Spec refuses the text: nothing is known of its commands
		}
		refuse := func(field, message, fix string) {
			out = append(out, Finding{File: field, Rule: RuleExec, Severity: Error, Message: message, Fix: fix})
		}
		switch names := commands[a.Service]; {
		case names == nil:
			refuse(service, fmt.Sprintf("%q declares no commands in the compose text", a.Service), "declare them there, under "+declared.Key)
		case names[a.Command] == nil:
			fix := "use one of " + commands.Names(a.Service)
			if service == command {
				fix = "declare it there: the adapter needs it"
			}
			refuse(command, fmt.Sprintf("%q is not declared by service %s", a.Command, a.Service), fix)
		}
	}
	for _, h := range spec.LifecycleHooks {
		at := fmt.Sprintf("lifecycle_hook[%q].exec.", h.Name)
		judge(at+"service", at+"command", h.Exec)
	}
	for _, c := range spec.HealthChecks {
		at := fmt.Sprintf("health_check[%q].exec.", c.Name)
		judge(at+"service", at+"command", c.Exec)
	}
	for _, a := range spec.Workload.AdapterCommands() {
		const at = `workload.settings["exec_service"]`
		if judge(at, at, &a); commands[a.Service] == nil {
			break // the service is the problem, once
		}
	}
	if h := spec.AutoHealing; h != nil && h.Service != "" && len(problems) == 0 && commands[h.Service] == nil {
		out = append(out, Finding{File: "auto_healing_policies.service", Rule: RuleExec, Severity: Error,
			Message: notRestartable(h.Service), Fix: "add one there, with `exec: {}` if it has no commands"})
	}
	return out
}

// Restartable is why the agent of a CVM that runs the compose text cannot restart the service in
// its container; "": it can.
func Restartable(text, service string) string {
	commands, problems := declared.Read(text)
	switch {
	case len(problems) > 0:
		return problems[0].String()
	case commands[service] == nil:
		return notRestartable(service)
	}
	return ""
}

func notRestartable(service string) string {
	return fmt.Sprintf("%q has no %s key in the compose text, so that its agent cannot restart it", service, declared.Key)
}
