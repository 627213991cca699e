// Package logging makes the log of a program of Fettle. Text of other parties is safe to show in it.
package logging
