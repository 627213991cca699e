// Package release tests what guards a release: that known vulnerabilities are found before one is made.
package release
