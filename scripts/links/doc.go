// Package links checks that every link from one page of the repository to another leads to a page and a section that
// exist. A heading that is renamed would otherwise leave dead links in pages, which no other check notices.
package links
