# SPDX-License-Identifier: BSD-3-Clause
# What is installed besides the programs and their manuals: units, documents, a header, tools.
units = packaging/memcached.service
if ENABLE_BMC
units += packaging/bmc.service
endif
if INSTALL_UNITS
systemdsystemunit_DATA = $(units)
endif
CLEANFILES += packaging/memcached.service packaging/bmc.service

packaging/%.service: $(srcdir)/packaging/%.service.in Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)sed 's|[@]bindir[@]|$(bindir)|' $< > $@.tmp && mv $@.tmp $@

# Where Debian's memcached has it. Programs that speak the binary protocol use it.
protocoldir = $(includedir)/memcached
protocol_HEADERS = packaging/protocol_binary.h

# Tools, where Debian has them too.
toolsdir = $(datadir)/memcached/scripts
tools_SCRIPTS = tools/memcached-tool

# The documents link to each other, to pictures, and to the README: the tree stays as it is.
documents = README.md $$(find doc -name '*.md' -o -name '*.svg')

install-data-local:
	cd $(srcdir) && for file in $(documents); do \
	    $(MKDIR_P) "$(DESTDIR)$(docdir)/$$(dirname $$file)" && \
	    $(INSTALL_DATA) $$file "$(DESTDIR)$(docdir)/$$file" || exit 1; \
	done

uninstall-local:
	cd $(srcdir) && for file in $(documents); do rm -f "$(DESTDIR)$(docdir)/$$file"; done
	-rmdir "$(DESTDIR)$(docdir)"/doc/* "$(DESTDIR)$(docdir)/doc" "$(DESTDIR)$(docdir)"
