package group

import "fmt"

// EditProblems lists the problems that prevent next from replacing old, the spec by which the group
// runs now. Both specs are valid documents. Absent fields count with their defaults.
func EditProblems(old, next Spec) []Problem {
	var problems []Problem
	if from, to := old.Template.DiskGB, next.Template.DiskGB; to < from {
		word := fmt.Sprintf("is %d", to)
		if to == 0 {
			word = "is absent"
		}
		problems = append(problems, Problem{Path: "template.disk_gb", Rule: "R131", Message: fmt.Sprintf(
			"%s, and the spec in force says %d: a disk only grows, so leave it at %d or give more; for smaller disks make a new group and move the data", word, from, from)})
	}
	problems = append(problems, otherForms(old, next)...)
	changes := Changes(old, next)
	return append(append(problems, beyondRollouts(changes)...), tooHarsh(changes, MostDisruptive(next))...)
}

// otherForms reports secrets whose form changes. A new form is a new value. Each member would take
// that value at its own renewal, minutes apart, and without an epoch that informs the workload.
func otherForms(old, next Spec) []Problem {
	was := map[string]Secret{}
	for _, one := range old.AllSecrets() {
		was[one.Name] = one
	}
	var problems []Problem
	refuse := func(name, field string, is, had any) {
		problems = append(problems, Problem{Path: fmt.Sprintf("secret[%q].%s", name, field), Message: fmt.Sprintf(
			"cannot change from %v to %v, which makes another value: put it back, and for another value rotate the secret; for another form declare one of another name and have the workload take that", had, is)})
	}
	for _, one := range next.AllSecrets() {
		had, there := was[one.Name]
		if there && had.Sealed() != one.Sealed() {
			word := map[bool]SecretSource{false: SecretGenerated, true: SecretOperator}
			refuse(one.Name, "source", word[one.Sealed()], word[had.Sealed()])
			continue
		}
		if there && had.Bytes != one.Bytes {
			refuse(one.Name, "bytes", one.Bytes, had.Bytes)
		}
		if there && had.Format != one.Format {
			refuse(one.Name, "format", one.Format, had.Format)
		}
	}
	return problems
}

// beyondRollouts reports the changes that no rollout can make, under every policy of next. Such a
// change would leave the old CVMs in another app than the new ones.
func beyondRollouts(changes []Change) []Problem {
	var problems []Problem
	for _, c := range Exceeding(changes, ActionRestart) {
		problems = append(problems, Problem{Path: c.Path, Rule: "R131", Message: fmt.Sprintf(
			"cannot change (%s): no rollout moves a member there, so the group would be split: put back what the group has, or make another group and move the data", c.Class)})
	}
	return problems
}

// tooHarsh is R132: a change that costs more than allowed is rejected as a whole, so that no part
// of it is applied. beyondRollouts has already rejected the changes that no rollout can make.
func tooHarsh(changes []Change, allowed UpdateAction) []Problem {
	var problems []Problem
	for _, c := range Exceeding(changes, allowed) {
		if c.Class.Harsher(ActionRestart) {
			continue
		}
		problems = append(problems, Problem{Path: c.Path, Rule: "R132", Message: fmt.Sprintf(
			"action_not_allowed: the change takes %s, and update_policy.most_disruptive_allowed_action is %s: leave the field as it is, or allow %s", c.Class, allowed, c.Class)})
	}
	return problems
}
