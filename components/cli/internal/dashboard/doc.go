// Package dashboard serves a page for one operator on a loopback address. Each answer comes from the coordinators' API,
// with the context of the operator; the package keeps no state between two runs.
//
// Sources ask the API and publish answers to feeds, which all browser tabs share. Pure functions turn the answers
// into view models, and templates turn view models into fragments of HTML. A live stream sends the fragments that
// changed.
package dashboard
